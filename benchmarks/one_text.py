"""Compare the time of one short text, from the string to the label.

    KERAS_BACKEND=torch python benchmarks/one_text.py --data DIRECTORY --size base

Without `--size` the model is the preset of the package. Each side classifies the same
texts one by one: `AlbertClassifier.classify`, `predict` of KerasHub, and transformers'
pipeline, which runs on PyTorch whatever the backend. A side that compiles each length
has seen all texts before. KerasHub pads to the longest text; it classifies fewer texts.
"""

import tempfile
from pathlib import Path
from typing import Any

from settings import SIZES, prepare, read_tasks, read_vocabulary, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure


def build(arguments) -> Any:
    """Return the classifier of the chosen size, or the preset with a new head."""
    if arguments.size in SIZES:
        from peer_models import build_classifier

        return build_classifier(arguments.size, read_vocabulary(arguments.data))
    from keras_albert import (
        AlbertBackbone,
        AlbertClassifier,
        AlbertClassifierPreprocessor,
    )

    # What the others can compute; the built-in preset has another pooler and GELU.
    backbone = AlbertBackbone.from_preset(
        arguments.size, pooler_input="cls", activation="gelu_approximate"
    )
    preprocessor = AlbertClassifierPreprocessor.from_preset(arguments.size)
    return AlbertClassifier(backbone, num_classes=2, preprocessor=preprocessor)


def compare(texts: list[str], arguments) -> Comparison:
    import keras
    import transformers
    from peer_models import (
        TransformersModel,
        check_classifiers,
        load_keras_hub,
        write_peers,
    )
    from text_ways import longest_row, same_ids

    ours = build(arguments)
    with tempfile.TemporaryDirectory() as folder:
        write_peers(ours, Path(folder))
        keras_hub = load_keras_hub(Path(folder))
        theirs = TransformersModel(Path(folder))
    notes = [
        check_classifiers(ours, keras_hub, theirs),
        same_ids(ours, theirs, texts),
    ]
    keras_hub.preprocessor.sequence_length = longest_row(ours, texts)
    pipeline = transformers.pipeline(
        "text-classification", model=theirs.model, tokenizer=theirs.tokenizer
    )
    if keras.config.backend() == "torch":
        from keras_albert.tasks.base.torch_program import EAGER_BATCHES

        # The measured texts do not wait for the trace.
        for _ in range(EAGER_BATCHES):
            ours.classify(texts[0])
    few = texts[: max(1, len(texts) // 8)]
    sides = [
        Side("keras_albert", lambda: list(map(ours.classify, texts)), len(texts)),
        Side(
            "KerasHub",
            lambda: [keras_hub.predict([text], verbose=0) for text in few],
            len(few),
        ),
        Side("transformers", lambda: list(map(pipeline, texts)), len(texts)),
    ]
    return measure(
        "one text",
        sides,
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        work="texts",
        notes=notes,
    )


def main() -> None:
    preset = "albert_tiny_en_uncased"
    made = timing_parser(__doc__)
    made.set_defaults(size=preset)
    made.add_argument("--texts", type=int, default=32)
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    texts, _ = read_tasks(arguments.data, ["sst-2"])[0].examples("dev", arguments.texts)
    comparison = compare(texts, arguments)
    report("one_text", [comparison], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
