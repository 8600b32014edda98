"""Compare the doubtful labels of `keras-albert check` with cleanlab's.

    KERAS_BACKEND=torch python benchmarks/doubtful_labels.py --sst2 path/to/SST-2

5% of the labels are flipped at random. Both sides are given the same probabilities, by
logistic regression on frozen vectors in five folds. Prints how many labels each flags,
and precision, recall and F1 of finding the flipped ones: means over the seeds. Needs
cleanlab (`pip install cleanlab`).
"""

import argparse
from pathlib import Path

import numpy as np
from few_labels import MESSAGES, read

SHARE = 20


def compare(name, texts, labels, embedder, seeds):
    from cleanlab.filter import find_label_issues

    from keras_albert.tools.mistakes import cross_validated, find_doubtful

    vectors = embedder.embed(texts)
    names = sorted(set(labels))
    found = {"keras-albert check": [], "cleanlab": []}
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        y = [names.index(label) for label in labels]
        flipped = random.choice(len(y), len(y) // SHARE, replace=False).tolist()
        for row in flipped:
            y[row] = random.choice([n for n in range(len(names)) if n != y[row]])
        y = np.array(y)
        probabilities = cross_validated(vectors, y)
        for side, rows in (
            ("keras-albert check", find_doubtful(probabilities, y)[0]),
            ("cleanlab", np.flatnonzero(find_label_issues(y, probabilities))),
        ):
            right = len({*rows.tolist()} & {*flipped})
            found[side].append((len(rows), right / len(rows), right / len(flipped)))
    for side, scores in found.items():
        flagged, precision, recall = np.mean(scores, axis=0)
        f1 = 2 * precision * recall / (precision + recall)
        print(
            f"{name}: {side} flags {flagged:.0f} of {len(y):,}, precision "
            f"{precision:.0%}, recall {recall:.0%}, F1 {f1:.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="albert_small_en_uncased")
    parser.add_argument("--sst2", type=Path, help="directory with train.tsv")
    parser.add_argument("--rows", type=int, default=3000, help="of SST-2")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    from keras_albert import AlbertTextEmbedder

    embedder = AlbertTextEmbedder.from_preset(arguments.preset)
    files = {"messages": read(MESSAGES, "text", "label")}
    if arguments.sst2 is not None:
        rows = read(arguments.sst2 / "train.tsv", "sentence", "label")
        files["SST-2"] = [column[: arguments.rows] for column in rows]
    for name, (texts, labels) in files.items():
        compare(name, texts, labels, embedder, arguments.seeds)


if __name__ == "__main__":
    main()
