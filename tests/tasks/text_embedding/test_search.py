"""Exact and approximate search, and the negatives that it finds."""

import importlib.util

import numpy as np
import pytest

from keras_albert.tasks import build_index, mine_hard_negatives, search
from keras_albert.tasks.text_embedding import search as module
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


def some_vectors(rows, seed=0, width=16):
    return np.random.default_rng(seed).normal(size=(rows, width)).astype("f")


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class TestExact:
    @pytest.mark.parametrize("top_k", [1, 7, 1000])
    def test_equals_all_products_in_any_blocks(self, monkeypatch, top_k):
        monkeypatch.setattr(module, "_CORPUS_ROWS", 30)
        monkeypatch.setattr(module, "_QUERIES", 4)
        corpus, queries = some_vectors(100), some_vectors(11, 1)
        scores = unit(queries) @ unit(corpus).T
        order = np.argsort(-scores, axis=1)[:, :top_k]
        rows, found = search(corpus, queries, top_k)
        np.testing.assert_array_equal(rows, order)
        np.testing.assert_allclose(
            found, np.take_along_axis(scores, order, axis=1), atol=1e-6
        )

    def test_equal_texts_are_found_in_their_order(self):
        corpus = np.repeat(np.eye(3), 3, axis=0)
        rows, scores = search(corpus, np.eye(3)[1:2], 9)
        assert rows.tolist() == [[3, 4, 5, 0, 1, 2, 6, 7, 8]]
        assert scores.tolist() == [[1, 1, 1, 0, 0, 0, 0, 0, 0]]

    def test_a_corpus_on_disk_and_nothing_to_find(self, tmp_path):
        vectors = some_vectors(50)
        vectors.tofile(tmp_path / "vectors")
        corpus = np.memmap(tmp_path / "vectors", "f", "r", shape=vectors.shape)
        rows, _ = search(corpus, vectors[:5], 1)
        assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]
        assert search(corpus, vectors[:0], 3)[0].shape == (0, 3)
        rows, scores = search(vectors[:0], vectors[:2], 3)
        assert rows.shape == scores.shape == (2, 0)

    def test_says_what_is_wrong(self):
        vectors = some_vectors(3)
        for corpus, queries, top_k, message in (
            (vectors, vectors[:, :8], 1, "have width 16, but the queries have width 8"),
            (vectors, vectors, 0, "top_k=0"),
            (vectors, vectors[None], 1, r"float32, shape=\(1, 3, 16\)"),
            (vectors, [["a text"] * 16], 1, "an array of numbers"),
            (vectors * [[1], [np.nan], [1]], vectors, 1, "The vector of row 1 is not"),
        ):
            with pytest.raises(ValueError, match=message):
                search(corpus, queries, top_k)


class TestIndex:
    def test_finds_nearly_all(self, monkeypatch):
        faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
        monkeypatch.setattr(module, "_CORPUS_ROWS", 700)
        corpus, queries = some_vectors(2000), some_vectors(50, 1)
        index = build_index(corpus)
        assert isinstance(index, faiss.IndexHNSWFlat)
        rows, scores = search(index, queries, 10)
        exact, cosines = search(corpus, queries, 10)
        shared = [len(set(a) & set(b)) for a, b in zip(rows, exact, strict=True)]
        assert np.mean(shared) > 8
        same = rows == exact
        np.testing.assert_allclose(scores[same], cosines[same], atol=1e-5)
        assert search(build_index(corpus[:3]), queries, 10)[0].shape == (50, 3)
        with pytest.raises(
            ValueError, match="have width 16, but the queries have width 8"
        ):
            search(index, queries[:, :8])

    def test_says_what_to_install(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match='pip install "faiss-cpu"'):
            build_index(np.eye(3))


# Directions: the cosine of a question with each text is that of their angles.
ANGLES = {"q": 0, "right": 20, "too near": 21, "near": 40, "far": 80, "p": 180}


def embed(texts):
    angles = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


class TestHardNegatives:
    def test_are_near_but_not_too_near(self):
        corpus = [text for text in ANGLES if text != "q"]
        columns = mine_hard_negatives(embed, (["q"], ["right"]), corpus, 2)
        assert columns == (["q"], ["right"], ["near"], ["far"])
        columns = mine_hard_negatives(embed, (["q"], ["right"]), corpus, margin=0)
        assert columns[2] == ["too near"]
        columns = mine_hard_negatives(embed, (["q"], ["right"]), corpus, skip=3)
        assert columns[2] == ["far"]

    def test_all_answers_of_a_question_are_right(self):
        x = (["q", "q", "p"], ["right", "near", "far"])
        found = mine_hard_negatives(embed, x, margin=0)
        assert found == (*x, ["far", "far", "near"])
        assert mine_hard_negatives(embed, x, num_negatives=4) == ([],) * 6

    def test_says_what_is_wrong(self):
        for x, kwargs, message in (
            (["q"], {}, "`x` must be pairs"),
            (("q", "right"), {}, "`x` must be pairs"),
            ((["q"], ["right"]), {"num_negatives": 0}, "num_negatives=0"),
            ((["q"], ["right"]), {"skip": -1}, "skip=-1"),
        ):
            with pytest.raises(ValueError, match=message):
                mine_hard_negatives(embed, x, **kwargs)

    def test_are_those_of_sentence_transformers(self):
        util = pytest.importorskip("sentence_transformers.util")
        datasets = pytest.importorskip("datasets")
        import torch
        from sentence_transformers import SentenceTransformer

        table = {f"{kind}{row}": some_vectors(1, row + 1000 * kind)[0]
                 for kind in (0, 1) for row in range(40)}  # fmt: skip
        for row in range(40):
            table[f"1{row}"] += table[f"0{row}"]
        pairs = [f"0{row}" for row in range(40)], [f"1{row}" for row in range(40)]

        class Model(SentenceTransformer):
            def __init__(self):
                torch.nn.Module.__init__(self)

            def encode(self, texts, **kwargs):
                return np.stack([table[text] for text in texts])

            encode_query = encode_document = encode

            def similarity(self, first, second):
                return util.cos_sim(first, second)

            def similarity_pairwise(self, first, second):
                return util.pairwise_cos_sim(first, second)

        expected = util.mine_hard_negatives(
            datasets.Dataset.from_dict({"a": pairs[0], "b": pairs[1]}),
            Model(),
            range_max=39,
            relative_margin=0.2,
            num_negatives=2,
            output_format="n-tuple",
            verbose=False,
        )
        found = mine_hard_negatives(
            lambda texts: [table[text] for text in texts], *(pairs, None, 2), margin=0.2
        )
        assert len(found) == 4
        assert len(found[0]) > 30
        columns = [expected[name] for name in expected.column_names]
        assert [list(column) for column in columns] == list(found)
