"""Prints batches of `keras_albert.text`, with neither Keras nor a backend.

python -I tests/text/without_keras.py keras_albert PRESET
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


folder, preset, *texts = sys.argv[1:]
sys.meta_path.insert(0, NotInstalled())
# The package itself may import Keras; text below it may not.
package = types.ModuleType("keras_albert")
package.__path__ = [folder]
sys.modules["keras_albert"] = package
found = importlib.import_module("keras_albert.text")
modules = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}.")
]
text = types.SimpleNamespace()
for module in modules:
    vars(text).update(vars(module))

path = f"{preset}/assets/tokenizer/vocabulary.spm"
vocabulary = text.open_vocabulary(text.read_any_vocabulary(path, "keep"))
special = text.SpecialIds.of(vocabulary)


def tokenize(texts):
    return text.TokenRows.from_arrays(vocabulary.encode(texts))


words = [text.split_words(each) for each in texts]
unique, places = text.distinct(word for row in words for word in row.words)
contexts = text.ContextTokens(vocabulary, texts)
masks = (text.tokenize_masks(vocabulary, texts),)
encoded = text.EncodedTexts((tokenize(texts),), special, 9)
examples = {
    "Classifier": text.LabelledTexts(encoded),
    "MaskedLM": text.WrittenMasks(
        text.EncodedTexts(masks, special, 9), vocabulary.special_ids["mask_token"]
    ),
    "MultipleChoice": text.LabelledTexts(
        text.ChoiceRows(
            *(tokenize(texts), text.np.array([0, 1]), tokenize(["a", "b", "c"])),
            *(text.np.array([2, 1]), special, 9, 4),
        )
    ),
    "QuestionAnswerer": text.SpanWindows(
        tokenize(["who?"] * len(texts)), contexts, special, 9, 3, 8
    ),
    "TokenClassifier": text.TaggedDocuments(
        words, tokenize(unique).take(places), special, 9
    ),
}
batches = {
    name: {key: ids.tolist() for key, ids in text.pack_all(each, int, True)[0].items()}
    for name, each in examples.items()
}
print(json.dumps(batches))
