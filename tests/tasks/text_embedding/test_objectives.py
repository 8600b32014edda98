"""Losses against their formulas and sentence-transformers; gradient caching."""

import keras
import numpy as np
import pytest

from keras_albert.tasks.text_embedding import objectives
from tests.one_backend import on_one_backend, on_one_backend_except
from tests.random_weights import fill_weights
from tests.tasks.small_models import small_backbone, small_embedder

pytestmark = on_one_backend_except(
    "test_known_answers_are_no_negatives",
    "TestGradientCaching::test_equals_the_whole_batch",
    "TestGradientCaching::test_dropout_is_the_same_in_the_backward_pass",
)


def some_vectors(texts=3, seed=0, width=8, rows=5):
    return np.random.default_rng(seed).normal(size=(rows, texts, width)).astype("f")


def distinct_ids(rows, texts):
    return np.arange(rows * texts * 4, dtype="int32").reshape(rows, texts, 4)


def loss_of(scores, temperature=0.05):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return float(loss(np.arange(len(scores)), scores / temperature))


def scores_of(vectors, token_ids=None, guide=None):
    ids = distinct_ids(*vectors.shape[:2]) if token_ids is None else token_ids
    scores = objectives.contrastive_scores(
        *map(keras.ops.convert_to_tensor, (vectors, ids)),
        None if guide is None else keras.ops.convert_to_tensor(guide),
    )
    return keras.ops.convert_to_numpy(scores)


def test_known_answers_are_no_negatives():
    ids = distinct_ids(4, 3)
    ids[1, 0] = ids[0, 0]  # one question with two answers
    ids[3, 1] = ids[2, 1]  # two questions with one answer
    ids[2, 2] = ids[0, 1]  # a wrong answer of one question, right for another
    vectors = some_vectors(rows=4)
    scores = scores_of(vectors, ids)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    others = np.concatenate([unit[:, 1], unit[:, 2]])
    hidden = scores < -1
    expected = unit[:, 0] @ others.T
    np.testing.assert_allclose(scores[~hidden], expected[~hidden], atol=1e-6)
    found = {tuple(place) for place in np.argwhere(hidden).tolist()}
    assert found == {(0, 1), (1, 0), (2, 3), (3, 2), (0, 4 + 2)}


class TestSentenceTransformers:
    @pytest.fixture
    def theirs(self):
        pytest.importorskip("sentence_transformers")
        from sentence_transformers.sentence_transformer import losses

        return losses

    @pytest.mark.parametrize("texts", [2, 3, 4])
    def test_multiple_negatives(self, theirs, texts):
        import torch

        vectors = some_vectors(texts)
        loss = theirs.MultipleNegativesRankingLoss(None)
        columns = [torch.from_numpy(vectors[:, n].copy()) for n in range(texts)]
        expected = float(loss.compute_loss_from_embeddings(columns, None))
        assert loss_of(scores_of(vectors)) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("texts", [2, 3])
    def test_guided_negatives(self, theirs, texts, monkeypatch):
        import torch

        vectors, guide = some_vectors(texts), some_vectors(texts, 1, 16)
        loss = theirs.GISTEmbedLoss.__new__(theirs.GISTEmbedLoss)
        torch.nn.Module.__init__(loss)
        loss.model, loss.guide, loss.must_retokenize = "student", "guide", False
        loss.similarity_fct = torch.nn.CosineSimilarity(dim=-1)
        loss.temperature, loss.margin, loss.margin_strategy = 0.05, 0.0, "absolute"
        loss.contrast_anchors = loss.contrast_positives = True
        loss.gather_across_devices = False
        loss.cross_entropy_loss = torch.nn.CrossEntropyLoss()
        monkeypatch.setattr(
            f"{type(loss).__module__}.embed_columns",
            lambda model, features: [
                torch.from_numpy({"student": vectors, "guide": guide}[model][:, n])
                for n in range(texts)
            ],
        )
        expected = float(loss([{}] * texts, None))
        found = loss_of(scores_of(vectors, guide=guide))
        assert found == pytest.approx(expected, abs=1e-6)
        assert found != pytest.approx(loss_of(scores_of(vectors)), abs=1e-2)

    def test_similarities(self, theirs):
        import torch

        vectors, y = some_vectors(2), np.linspace(0, 1, 5, dtype="f")
        loss = theirs.CosineSimilarityLoss(torch.nn.Module())
        columns = [torch.from_numpy(vectors[:, n].copy()) for n in (0, 1)]
        expected = loss.compute_loss_from_embeddings(columns, torch.from_numpy(y))
        scores = objectives.cosine_scores(keras.ops.convert_to_tensor(vectors))
        found = keras.losses.MeanSquaredError()(y[:, None], scores)
        assert float(found) == pytest.approx(float(expected), abs=1e-6)


TEXTS = (
    [f"the {word}" for word in ("rain", "bread", "lamps", "storm", "hill")],
    [f"{word} of old" for word in ("rain", "bread", "lamps", "storm", "hill")],
    ["sea", "town", "river", "by the sea", "the old town"],
)


def weights_after_a_step(proto, mini_batch_size, **kwargs):
    model = small_embedder(
        proto,
        objective="contrastive",
        mini_batch_size=mini_batch_size,
        matryoshka_dims=(32, 8),
        **kwargs,
    )
    fill_weights(model)
    model.compile(keras.optimizers.SGD(0.1))
    loss = model.fit(TEXTS, batch_size=5, verbose=0).history["loss"]
    weights = {each.path: as_array(each) for each in model.trainable_weights}
    return loss, weights


def as_array(variable):
    # A copy: on JAX, the next step donates it.
    return np.array(keras.ops.convert_to_numpy(variable))


class TestGradientCaching:
    @pytest.mark.parametrize("size", [4, 15])
    def test_equals_the_whole_batch(self, toy_proto, size):
        loss, expected = weights_after_a_step(toy_proto, None)
        cached, found = weights_after_a_step(toy_proto, size)
        assert cached == pytest.approx(loss, abs=1e-5)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, atol=2e-6, err_msg=name)

    def test_dropout_is_the_same_in_the_backward_pass(self, toy_proto, monkeypatch):
        def step():
            keras.utils.set_random_seed(1)
            backbone = small_backbone(dropout=0.3, attention_dropout=0.2)
            monkeypatch.setattr(
                "tests.tasks.small_models.small_backbone", lambda: backbone
            )
            loss, weights = weights_after_a_step(toy_proto, 4)
            states = [as_array(v) for v in backbone.variables if "seed" in v.path]
            return loss, weights, states

        loss, found, states = step()
        assert states
        assert all(state[1] == 4 for state in states)  # one draw for each part
        monkeypatch.setattr(keras, "remat", lambda function: function)
        expected_loss, expected, _ = step()
        assert loss == pytest.approx(expected_loss, abs=1e-5)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, atol=2e-6, err_msg=name)

    def test_keeps_little_for_the_backward_pass(self, toy_proto):
        import torch

        def kept(size):
            model = small_embedder(
                toy_proto, objective="contrastive", mini_batch_size=size
            )
            ids = model.preprocessor(tuple(column * 8 for column in TEXTS))
            ids = {name: torch.from_numpy(array) for name, array in ids.items()}
            sizes = {weight.value.data_ptr(): 0 for weight in model.weights}

            def pack(tensor):
                sizes.setdefault(tensor.data_ptr(), tensor.numel())
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                model(ids, training=True)
            return sum(sizes.values())

        assert kept(8) < kept(None) / 20

    def test_reads_rows_of_one_text_each(self, toy_proto):
        model = small_embedder(toy_proto, objective="contrastive", mini_batch_size=4)
        model.preprocessor.pack_sequences = True
        with pytest.raises(ValueError, match="`mini_batch_size` divides the texts"):
            model.fit(TEXTS, verbose=0)
        with pytest.raises(ValueError, match="mini_batch_size=0"):
            small_embedder(toy_proto, mini_batch_size=0)


@on_one_backend
def test_says_how_many_texts_an_example_has(toy_proto):
    for objective, x, message in (
        (
            "cosine",
            TEXTS,
            r"`x=\(first, second\)`\. Received an array of shape \(.*3, ",
        ),
        ("contrastive", TEXTS[:1], r"`x=\(first, second, wrong, \.\.\.\)`"),
    ):
        model = small_embedder(toy_proto, objective=objective)
        ids = model.preprocessor(x if len(x) > 1 else x[0])
        y = None if objective == "contrastive" else np.zeros(5)
        with pytest.raises(ValueError, match=message):
            model.evaluate(ids, y, verbose=0)
