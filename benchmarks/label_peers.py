"""Compare what surrounds a classifier with other packages, on the same inputs.

    KERAS_BACKEND=torch python benchmarks/label_peers.py \
        --sst2 path/to/SST-2 --squad train.json --minilm path/to/all-MiniLM-L6-v2

Each part needs its package, and is left out without it:

- mapie: sets of labels from the same probabilities, 100 divisions of the held-out rows
  of three data sets into calibration and test; coverage and mean size.
- captum: integrated gradients of the same PyTorch model (`KERAS_BACKEND=torch`).
- faiss: the same rows as an exact search of faiss, and the recall of `build_index`.
- sentence-transformers, model2vec: the vectors of `--minilm`, and of its tokens, with
  logistic regression, compared with `fit(method="linear")`, on 10 draws of `--labels`.

`doubtful_labels.py` compares with cleanlab.
"""

import argparse
import importlib.util
from pathlib import Path

import keras
import numpy as np
from contrastive_labels import data_sets, linear_logits
from keras import ops

from keras_albert import AlbertClassifier, AlbertTextEmbedder
from keras_albert.tasks import build_index, search
from keras_albert.tasks.classification.calibration import (
    find_temperature,
    label_sets,
    set_threshold,
)

PRESET = "albert_small_en_uncased"
SPLITS, DRAWS, TRAINED_ON = 100, 10, 100


def compare_sets(name, logits, y, error_rate):
    from mapie.classification import SplitConformalClassifier
    from scipy.special import softmax
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose inputs are the probabilities."""

        def __init__(self, classes_):
            self.classes_ = classes_

        def fit(self, x, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def predict_proba(self, x):
            return x

        def predict(self, x):
            return self.classes_[x.argmax(1)]

    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(y))
        # As `calibrate` does: a half for the temperature, a half for the threshold.
        first, second, test = np.array_split(order, 3)
        x = softmax(logits / find_temperature(logits[first], y[first]), axis=-1)
        ours = label_sets(x[test], set_threshold(x[second], y[second], error_rate))
        mapie = SplitConformalClassifier(
            Given(np.arange(logits.shape[1])),
            confidence_level=1 - error_rate,
            conformity_score="lac",
        )
        mapie.conformalize(x[second], y[second])
        theirs = mapie.predict_set(x[test])[1][:, :, 0]
        same = (ours == theirs).all(1) | ~theirs.any(1)
        rows = np.arange(len(test))
        sides = [
            (sets[rows, y[test]].mean(), sets.sum(1).mean()) for sets in (ours, theirs)
        ]
        found.append([*sides[0], *sides[1], same.mean(), (~theirs.any(1)).mean()])
    cover, size, their_cover, their_size, same, empty = np.mean(found, axis=0)
    print(
        f"{name}, asked for {1 - error_rate:.0%}: coverage {cover:.1%}, "
        f"{size:.3f} labels; MAPIE {their_cover:.1%}, {their_size:.3f} labels; "
        f"MAPIE's set is empty for {empty:.1%}, otherwise equal "
        f"for {same:.2%}",
        flush=True,
    )


def compare_parts(texts, steps):
    """Compare the parts of words with Captum's."""
    import torch
    from captum.attr import IntegratedGradients

    classifier = AlbertClassifier.from_preset(f"{PRESET}_sst2")
    backbone, preprocessor = classifier.backbone, classifier.preprocessor
    worst = added = 0.0
    for text in texts:
        ours = classifier.explain(text, steps=steps)
        ids = {k: v[None] for k, v in preprocessor(text).items()}
        masked = ids["token_ids"].copy()
        used = int(ids["padding_mask"].sum())
        masked[0, 1 : used - 1] = preprocessor.tokenizer.mask_token_id
        x, base = (
            backbone.embedding(t, segment_ids=ids["segment_ids"], training=False)
            for t in (ids["token_ids"], masked)
        )

        def logits(rows, mask):
            out = backbone.encoder(rows, padding_mask=mask, training=False)
            return classifier.output_dense(backbone.pool(out, mask))

        mask = ops.convert_to_tensor(ids["padding_mask"])
        parts = IntegratedGradients(logits).attribute(
            x.detach(),
            baselines=base.detach(),
            target=classifier.class_names.index(ours.label),
            additional_forward_args=(mask,),
            n_steps=steps,
            method="gausslegendre",
        )
        theirs = parts.sum(-1)[0, 1 : used - 1].detach().to(torch.float64).numpy()
        _, starts, _ = preprocessor.tokenizer.tokenize_with_offsets(text)
        begins = [word.start for word in ours.words]
        owners = np.maximum(np.searchsorted(begins, starts, side="right") - 1, 0)
        sums = np.bincount(owners[: len(theirs)], theirs, minlength=len(begins))
        parts = np.array([word.part for word in ours.words])
        worst = max(worst, np.abs(sums - parts).max())
        added = max(added, abs(parts.sum() - (ours.logit - ours.baseline)))
    print(
        f"{len(texts)} texts, {steps} steps: parts of words differ from Captum's by at "
        f"most {worst:.1e}; their sum differs from the logits by {added:.1e}",
        flush=True,
    )


def compare_search(texts, queries):
    import faiss

    embedder = AlbertTextEmbedder.from_preset(PRESET)
    corpus, asked = embedder.embed(texts), embedder.embed(queries)
    rows, cosines = search(corpus, asked, top_k=10)
    index = faiss.IndexFlatIP(corpus.shape[1])
    index.add(corpus)
    theirs, numbers = index.search(asked, 10)
    found, _ = search(build_index(corpus), asked, top_k=10)
    recall = np.mean([len({*a} & {*b}) / 10 for a, b in zip(rows, found, strict=True)])
    same, gap = (rows == numbers).mean(), np.abs(cosines - theirs).max()
    print(
        f"{len(texts):,} texts, {len(queries)} queries, top 10: {same:.2%} of the rows "
        f"are faiss', cosines differ by {gap:.1e}; `build_index` finds {recall:.2%}",
        flush=True,
    )


def vectors_of(minilm):
    """Yield the names of packages, and their functions from texts to vectors."""
    if importlib.util.find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        yield "sentence-transformers", SentenceTransformer(str(minilm)).encode
    if importlib.util.find_spec("model2vec"):
        from model2vec.distill import distill

        # A vector for each token, made of the model's.
        yield "model2vec", distill(str(minilm)).encode


def compare_heads(name, train, held_out, encoders, counts):
    from sklearn.linear_model import LogisticRegression

    names = tuple(sorted(set(train[1])))
    encoded = {package: encode(held_out[0]) for package, encode in encoders.items()}
    for count in counts:
        found = []
        for seed in range(DRAWS):
            rows = np.random.default_rng(seed).permutation(len(train[0]))[:count]
            few = [[column[row] for row in rows] for column in train]
            classifier = AlbertClassifier.from_preset(PRESET, labels=names)
            logits = linear_logits(classifier, few, held_out[0])
            y = np.asarray(classifier.encode_targets(held_out[1]))
            scores = [(logits.argmax(1) == y).mean()]
            for package, encode in encoders.items():
                head = LogisticRegression(max_iter=1000).fit(encode(few[0]), few[1])
                scores.append(head.score(encoded[package], held_out[1]))
            found.append(scores)
        sides = zip(["linear", *encoders], zip(*found, strict=True), strict=True)
        shown = [f"{who} {np.mean(x):.1%} ± {np.std(x):.1%}" for who, x in sides]
        print(f"{name}, {count} labels, {DRAWS} draws: {', '.join(shown)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sst2", type=Path, help="directory with train and dev.tsv")
    parser.add_argument("--squad", type=Path, help="a JSON file with titles")
    parser.add_argument("--minilm", type=Path, help="a folder of sentence-transformers")
    parser.add_argument("--labels", type=int, nargs="+", default=[100])
    parser.add_argument("--rows", type=int, default=872, help="held out")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    has = {
        name: importlib.util.find_spec(name) is not None
        for name in ("mapie", "captum", "faiss")
    }
    encoders = {} if arguments.minilm is None else dict(vectors_of(arguments.minilm))
    sets = list(data_sets(arguments, arguments.rows))
    if has["captum"] and keras.config.backend() == "torch":
        compare_parts(sets[-1][2][0][:5] + sets[0][2][0][:5], 64)
    if has["faiss"]:
        _, train, held_out = sets[-1]
        compare_search(train[0], held_out[0])
    for name, train, held_out in sets:
        if has["mapie"]:
            few = [column[:TRAINED_ON] for column in train]
            names = tuple(sorted(set(train[1])))
            classifier = AlbertClassifier.from_preset(PRESET, labels=names)
            logits = linear_logits(classifier, few, held_out[0])
            y = np.asarray(classifier.encode_targets(held_out[1]))
            compare_sets(name, logits.astype("float64"), y, 0.1)
        if encoders:
            compare_heads(name, train, held_out, encoders, arguments.labels)


if __name__ == "__main__":
    main()
