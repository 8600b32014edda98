"""Prints batches of `keras_albert.text`, with neither Keras nor a backend.

python -I tests/text/without_keras.py keras_albert PRESET TEXT...
"""

import importlib
import json
import pkgutil
import sys
import types


class NotInstalled:
    """Finds none of these packages."""

    def find_spec(self, name, path=None, target=None):
        if name in {"keras", "keras_hub", "tensorflow", "torch", "jax"}:
            raise ImportError(name)


def load(folder):
    """Import all modules of text; the package itself may import Keras."""
    sys.meta_path.insert(0, NotInstalled())
    package = types.ModuleType("keras_albert")
    package.__path__ = [folder]
    sys.modules["keras_albert"] = package
    text = importlib.import_module("keras_albert.text")
    found = types.SimpleNamespace()
    for module in pkgutil.walk_packages(text.__path__, f"{text.__name__}."):
        vars(found).update(vars(importlib.import_module(module.name)))
    return found


def main(folder, preset, *texts):
    text = load(folder)
    path = f"{preset}/assets/tokenizer/vocabulary.spm"
    vocabulary = text.open_vocabulary(text.read_any_vocabulary(path, "keep"))
    special = text.SpecialIds.of(vocabulary)

    def tokenize(texts):
        return text.TokenRows.from_arrays(vocabulary.encode(texts))

    words = [text.split_words(each) for each in texts]
    unique, places = text.distinct(word for row in words for word in row.words)
    masked = text.EncodedTexts((text.tokenize_masks(vocabulary, texts),), special, 9)
    examples = {
        "Classifier": text.LabelledTexts(
            text.EncodedTexts((tokenize(texts),), special, 9)
        ),
        "MaskedLM": text.WrittenMasks(masked, vocabulary.special_ids["mask_token"]),
        "MultipleChoice": text.LabelledTexts(
            text.ChoiceRows(
                *(tokenize(texts), text.np.array([0, 1]), tokenize(["a", "b", "c"])),
                *(text.np.array([2, 1]), special, 9, 4),
            )
        ),
        "QuestionAnswerer": text.SpanWindows(
            *(tokenize(["who?"] * 2), text.ContextTokens(vocabulary, texts)),
            *(special, 9, 3, 8),
        ),
        "TokenClassifier": text.TaggedDocuments(
            words, tokenize(unique).take(places), special, 9
        ),
    }
    batches = {}
    for name, each in examples.items():
        x, _, _ = text.pack_all(each, int, True)
        batches[name] = {key: ids.tolist() for key, ids in x.items()}
    print(json.dumps(batches))


if __name__ == "__main__":
    main(*sys.argv[1:])
