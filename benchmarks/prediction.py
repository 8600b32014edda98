"""Compare predictions for texts of mixed lengths, including tokenization.

    KERAS_BACKEND=torch python benchmarks/prediction.py --data DIRECTORY --size base

Three sentences for each passage, in random order, in batches of 32. Every side returns
the logits of all texts in their original order.
"""

from settings import mixed_texts, prepare, read_vocabulary, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure


def compare(texts: list[str], vocabulary: bytes, arguments) -> Comparison:
    from peer_models import (
        build_classifier,
        check_agreement,
        check_classifiers,
        peers_of,
    )
    from text_ways import all_ways, longest_row, same_ids

    ours = build_classifier(arguments.size, vocabulary)
    with peers_of(ours) as (keras_hub, theirs):
        notes = [check_classifiers(ours, keras_hub, theirs)]
        longest = longest_row(ours, texts)
        ways = all_ways(ours, keras_hub, theirs, longest, arguments.torch_compile)
        # Batching by length must return the results of a fixed length. transformers is
        # not compared, because its tokenizer may differ.
        few = texts[:64]
        outputs = {way.name: way.predict(few) for way in ways[:2]}
        notes.append(f"on texts: {check_agreement(outputs)}")
        notes.append(same_ids(ours, theirs, texts[:1000]))
        sides = [
            Side(
                way.name,
                lambda way=way: way.predict(texts[: way.share(texts)]),
                way.share(texts),
                way.optional,
            )
            for way in ways
        ]
        return measure(
            "prediction: mixed lengths",
            sides,
            arguments.repeats,
            clock=CLOCKS[arguments.clock],
            work="texts",
            notes=notes,
        )


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--examples", type=int, default=1024)
    made.add_argument("--no-torch-compile", dest="torch_compile", action="store_false")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    vocabulary = read_vocabulary(arguments.data)
    texts = mixed_texts(arguments.data, arguments.examples)
    comparison = compare(texts, vocabulary, arguments)
    report("prediction", [comparison], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
