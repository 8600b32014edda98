"""Compare pretrained weights with random weights and a bag of words.

    python benchmarks/few_labels.py runs/mine/preset
    python benchmarks/few_labels.py PRESET --sst2 path/to/SST-2 --stsb path/to/STS-B

Classification: the same model, tokenizer, steps and batches with `from_preset(...)` and
`from_preset(..., load_weights=False)`, compared to logistic regression on TF-IDF of
words (1 and 2) and characters (2 to 5). "linear" is the same model with
`fit(method="linear")`, "linear, tuned" is trained further from there, and "linear,
words" joins TF-IDF to its vectors, at the scale that is best in the folds. Similarity:
the cosine of two embeddings, before and after training, compared to the cosine of the
TF-IDF vectors. Prints accuracy or Spearman's correlation on the validation set: mean
and standard deviation over seeds,
which determine the labelled examples, the head, the random weights and the order.
`--output` also writes the table as JSON and a plot.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from keras_albert import AlbertClassifier, AlbertTextEmbedder

MESSAGES = Path(__file__).parents[1] / "examples" / "data" / "support_messages.tsv"
HELD_OUT_MESSAGES = 240
HIGHEST_SIMILARITY = 5.0
KINDS = (
    *("pretrained", "random", "linear", "linear, tuned", "linear, words"),
    "bag of words",
)
SCALES = (0, 0.3, 1)


def read(path: Path, text: str, label: str) -> tuple[list[str], list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[text] for row in rows], [row[label] for row in rows]


def data_sets(messages: bool, sst2: Path | None):
    """Yield (name, training texts and labels, validation ones) of each data set."""
    if messages:
        texts, labels = read(MESSAGES, "text", "label")
        cut = len(texts) - HELD_OUT_MESSAGES
        yield "messages", (texts[:cut], labels[:cut]), (texts[cut:], labels[cut:])
    if sst2 is not None:
        train, dev = (
            read(sst2 / f"{name}.tsv", "sentence", "label") for name in ("train", "dev")
        )
        yield "SST-2", train, dev


def accuracy(preset, kind, train, held_out, seed, steps, batch_size):
    keras.utils.set_random_seed(seed)
    classifier = AlbertClassifier.from_preset(
        preset, labels=tuple(sorted(set(train[1]))), load_weights=kind != "random"
    )
    if kind == "linear, words":
        return joined_accuracy(classifier, train, held_out)
    if kind.startswith("linear"):
        classifier.fit(*train, method="linear", verbose=0)
    if kind != "linear":
        epochs = max(1, round(steps * batch_size / len(train[0])))
        classifier.fit(*train, batch_size=batch_size, epochs=epochs, verbose=0)
    return classifier.evaluate(*held_out, return_dict=True, verbose=0)["accuracy"]


def joined_accuracy(classifier, train, held_out):
    from scipy.sparse import csr_matrix, hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import normalize

    from keras_albert.tasks.classification.linear import read_vectors

    # Of the tokens, side by side with those of [CLS].
    means = [
        normalize(np.split(read_vectors(classifier, x), 2, 1)[1])
        for x, _ in (train, held_out)
    ]
    center, words = means[0].mean(0), bag_of_words(train[0])
    deviation = means[0].var(0).mean() ** 0.5
    dense = [csr_matrix((rows - center) / deviation) for rows in means]
    sparse = [words(x) * means[0].shape[1] ** 0.5 for x, _ in (train, held_out)]
    found = []
    for scale in SCALES:
        x, test = (
            hstack([a, scale * b]).tocsr() for a, b in zip(dense, sparse, strict=True)
        )
        search = GridSearchCV(
            LogisticRegression(max_iter=1000),
            {"C": np.logspace(-4, 1, 6)},
            scoring="neg_log_loss",
        ).fit(x, train[1])
        right = search.predict(test) == np.array(held_out[1])
        found.append((search.best_score_, float(right.mean())))
    return max(found)[1]


def bag_of_words(texts):
    """Fit TF-IDF of words and characters, and return a function that applies it."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    parts = [
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    ]
    for part in parts:
        part.fit(texts)
    return lambda texts: hstack([part.transform(texts) for part in parts]).tocsr()


def bag_of_words_accuracy(train, held_out):
    from sklearn.linear_model import LogisticRegression

    vectors = bag_of_words(train[0])
    classifier = LogisticRegression(C=10, max_iter=2000)
    classifier.fit(vectors(train[0]), train[1])
    return float(classifier.score(vectors(held_out[0]), held_out[1]))


def read_pairs(path: Path):
    """Read the pairs of STS-B and their similarities; skip truncated lines."""
    names = ("sentence1", "sentence2", "score")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [[row[name] for name in names] for row in reader]
    first, second, scores = zip(*(row for row in rows if None not in row), strict=True)
    return (list(first), list(second)), [float(score) for score in scores]


def correlation(first, second, scores) -> float:
    """Return the rank correlation of scores and cosines of (sparse) vectors."""
    from scipy.stats import spearmanr
    from sklearn.metrics.pairwise import paired_cosine_distances

    return float(
        spearmanr(1 - paired_cosine_distances(first, second), scores).statistic
    )


def similarity(train, held_out, seed, epochs, batch_size, **embedder_settings):
    """Return Spearman's correlation before and after training."""
    keras.utils.set_random_seed(seed)
    embedder = AlbertTextEmbedder.from_preset(**embedder_settings)
    pairs, scores = held_out

    def measure():
        first, second = (embedder.embed(texts, batch_size=64) for texts in pairs)
        return correlation(first, second, scores)

    before = measure()
    targets = [score / HIGHEST_SIMILARITY for score in train[1]]
    embedder.fit(train[0], targets, batch_size=batch_size, epochs=epochs, verbose=0)
    return before, measure()


def similarity_rows(arguments):
    """Return the rows of the table for STS-B: without labels, and with all."""
    train, held_out = (
        read_pairs(arguments.stsb / f"{name}.tsv") for name in ("train", "dev")
    )
    rows = [
        {"data": "STS-B", "labels": count, "largest_class": 0.0}
        | {kind: [] for kind in KINDS}
        for count in (0, len(train[1]))
    ]
    # TF-IDF learns word frequencies only, nothing from labels.
    vectors = bag_of_words(train[0][0] + train[0][1])
    first, second = map(vectors, held_out[0])
    rows[0]["bag of words"].append(correlation(first, second, held_out[1]))
    for seed in range(arguments.seeds):
        for kind in arguments.models:
            if kind.startswith("linear"):
                continue
            scores = similarity(
                train,
                held_out,
                seed,
                arguments.stsb_epochs,
                arguments.batch_size,
                preset=arguments.preset,
                load_weights=kind == "pretrained",
                inverse_frequency=arguments.inverse_frequency,
            )
            print(f"STS-B seed {seed} {kind}: {scores[0]:.3f} -> {scores[1]:.3f}")
            for row, score in zip(rows, scores, strict=True):
                row[kind].append(score)
    return rows


def draw(results, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in results))
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.5 * len(names), 3.5), layout="constrained"
    )
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        rows = [row for row in results if row["data"] == name]
        for kind in KINDS:
            mean = [np.mean(row[kind] or np.nan) for row in rows]
            spread = [np.std(row[kind] or np.nan) for row in rows]
            counts = [row["labels"] or 1 for row in rows]
            axis.errorbar(counts, mean, spread, marker="o", capsize=3, label=kind)
        axis.axhline(rows[0]["largest_class"], color="grey", ls=":", label="one class")
        axis.set(xscale="log", xlabel="labelled examples", title=name)
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("accuracy")
    np.atleast_1d(axes)[-1].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset", help="a name, a directory or a handle")
    parser.add_argument("--sst2", type=Path, help="directory with train and dev.tsv")
    parser.add_argument("--stsb", type=Path, help="directory with train and dev.tsv")
    parser.add_argument("--stsb-epochs", type=int, default=4)
    parser.add_argument("--inverse-frequency", type=float, help="of the embedder")
    parser.add_argument("--no-messages", dest="messages", action="store_false")
    parser.add_argument("--counts", type=int, nargs="*", default=[100, 1000])
    parser.add_argument(
        "--few-only", action="store_true", help="nothing on all that is labelled"
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=[kind for kind in KINDS if not kind.startswith("linear")],
        help="what to compare",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    parser.add_argument(
        "--all-steps", type=int, default=3000, help="with more than 10,000 labels"
    )
    parser.add_argument("--output", type=Path, help="a directory for JSON and the plot")
    arguments = parser.parse_args()
    arguments.models = [kind for kind in KINDS[:-1] if kind in arguments.kinds]

    results = []
    for name, train, held_out in data_sets(arguments.messages, arguments.sst2):
        whole = len(train[0])
        counts = {n for n in arguments.counts if n < whole}
        for count in sorted(counts if arguments.few_only else {*counts, whole}):
            row = {"data": name, "labels": count} | {kind: [] for kind in KINDS}
            shares = np.unique(held_out[1], return_counts=True)[1] / len(held_out[1])
            row["largest_class"] = float(shares.max())
            many = count > 10_000
            steps = arguments.all_steps if many else arguments.steps
            for seed in range(arguments.seeds):
                chosen = np.random.default_rng(seed).permutation(whole)[:count]
                part = [[column[i] for i in chosen] for column in train]
                if "bag of words" in arguments.kinds:
                    row["bag of words"].append(bag_of_words_accuracy(part, held_out))
                for kind in arguments.models:
                    started = time.perf_counter()
                    value = accuracy(
                        arguments.preset,
                        kind,
                        part,
                        held_out,
                        seed,
                        steps,
                        arguments.batch_size,
                    )
                    row[kind].append(value)
                    seconds = time.perf_counter() - started
                    print(f"{name} {count} seed {seed} {kind}: {value:.3f}", end=" ")
                    print(f"in {seconds:.0f} s", flush=True)
            results.append(row)
    if arguments.stsb is not None:
        results += similarity_rows(arguments)

    table = Table("data", "labels", *KINDS, "one class")
    for row in results:
        cells = [
            f"{np.mean(row[kind]):.1%} ± {np.std(row[kind]):.1%}" if row[kind] else "-"
            for kind in KINDS
        ]
        table.add_row(
            row["data"], str(row["labels"]), *cells, f"{row['largest_class']:.1%}"
        )
    Console().print(table)
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        file = arguments.output / "few_labels.json"
        file.write_text(json.dumps(results, indent=1), encoding="utf-8")
        draw(results, arguments.output / "few_labels.png")


if __name__ == "__main__":
    main()
