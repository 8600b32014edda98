"""Measures of vectors, against sentence-transformers and scikit-learn."""

import numpy as np
import pytest

from keras_albert.tasks import (
    clustering_scores,
    retrieval_scores,
    search,
    similarity_scores,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


def some_vectors(rows, seed=0, width=16):
    return np.random.default_rng(seed).normal(size=(rows, width)).astype("f")


class Table:
    """A model of sentence-transformers whose texts are numbers of rows."""

    similarity_fn_name = "cosine"
    model_card_data = None

    def __init__(self, vectors):
        import torch

        self.vectors = torch.from_numpy(vectors)

    def encode(self, texts, convert_to_numpy=True, **kwargs):
        found = self.vectors[[int(text) for text in texts]]
        return found.numpy() if convert_to_numpy else found

    encode_query = encode_document = encode

    def similarity(self, first, second):
        from sentence_transformers.util import cos_sim

        return cos_sim(first, second)


class TestSimilarity:
    def test_is_that_of_sentence_transformers(self):
        module = pytest.importorskip(
            "sentence_transformers.sentence_transformer.evaluation"
        )
        vectors = some_vectors(60)
        truth = np.random.default_rng(1).integers(0, 6, 30)
        numbers = list(map(str, range(60)))
        theirs = module.EmbeddingSimilarityEvaluator(
            *(numbers[:30], numbers[30:], truth.tolist()), write_csv=False
        )
        theirs.store_metrics_in_model_card_data = lambda *args, **kwargs: None
        expected = theirs(Table(vectors))
        found = similarity_scores(vectors[:30], vectors[30:], truth)
        assert found == pytest.approx(
            {
                "Pearson": expected["pearson_cosine"],
                "Spearman": expected["spearman_cosine"],
            },
            abs=1e-6,
        )

    def test_equal_numbers_have_none(self):
        assert similarity_scores(np.eye(2), np.eye(2), [1, 2]) == {}
        with pytest.raises(ValueError, match="2 first vectors, 2 second ones, 1 sco"):
            similarity_scores(np.eye(2), np.eye(2), [1])
        with pytest.raises(ValueError, match="Row 1 has the score nan"):
            similarity_scores(np.eye(2), np.eye(2), [1, np.nan])


class TestRetrieval:
    @pytest.mark.parametrize("k", [3, 10])
    def test_is_that_of_sentence_transformers(self, k):
        module = pytest.importorskip(
            "sentence_transformers.sentence_transformer.evaluation"
        )
        random = np.random.default_rng(2)
        vectors = some_vectors(220)
        relevant = [set(random.integers(0, 200, n % 14 + 1)) for n in range(20)]
        theirs = module.InformationRetrievalEvaluator(
            {str(n): str(200 + n) for n in range(20)},
            {str(n): str(n) for n in range(200)},
            {str(n): set(map(str, right)) for n, right in enumerate(relevant)},
            **{f"{name}_at_k": [k] for name in ("mrr", "ndcg", "precision_recall")},
            map_at_k=[100],
            write_csv=False,
        )
        theirs.store_metrics_in_model_card_data = lambda *args, **kwargs: None
        expected = theirs(Table(vectors))
        rows, _ = search(vectors[:200], vectors[200:], 100)
        found = retrieval_scores(rows, relevant, k)
        assert found == pytest.approx(
            {
                f"nDCG@{k}": expected[f"cosine_ndcg@{k}"],
                f"MRR@{k}": expected[f"cosine_mrr@{k}"],
                f"recall@{k}": expected[f"cosine_recall@{k}"],
                "MAP@100": expected["cosine_map@100"],
            },
            abs=1e-6,
        )

    def test_perfect_and_useless(self):
        perfect = retrieval_scores([[3, 1, 2], [0, 5, 4]], [{1, 3}, [0]], 2)
        assert set(perfect.values()) == {1.0}
        useless = retrieval_scores([[3, -1], [0, 5]], [{1}, {2}], 2)
        assert set(useless.values()) == {0.0}

    def test_says_what_is_wrong(self):
        for rows, relevant, k, message in (
            ([[1, 2]], [{1}, {2}], 2, r"must have the shape \(2, 2 or more\)"),
            ([[1, 2]], [{1}], 3, r"\(1, 3 or more\). Received: \(1, 2\)"),
            ([[1, 2], [0, 1]], [{1}, set()], 2, "Query 1 has no right answer"),
            ([[1, 2]], [{1}], 0, "k=0"),
        ):
            with pytest.raises(ValueError, match=message):
                retrieval_scores(rows, relevant, k)


class TestClusters:
    def test_are_those_of_the_labels(self):
        centres = 5 * np.eye(4)
        labels = np.repeat(["a", "b", "c", "d"], 20)
        vectors = np.repeat(centres, 20, axis=0) + some_vectors(80, width=4) / 10
        assert clustering_scores(vectors, labels) == pytest.approx(
            {"homogeneity": 1.0, "completeness": 1.0, "V-measure": 1.0}
        )
        random = clustering_scores(some_vectors(80), labels)
        assert random["V-measure"] < 0.3

    def test_needs_a_label_for_each(self):
        with pytest.raises(ValueError, match="3 vectors, but 2 labels"):
            clustering_scores(np.eye(3), ["a", "b"])
