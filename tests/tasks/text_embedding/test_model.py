import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertTextEmbedder
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from tests.foreign_models import ragged_inputs, run_transformers, save_transformers
from tests.one_backend import on_one_backend_except
from tests.random_weights import fill_weights
from tests.tasks.small_models import small_embedder, toy_pairs

pytestmark = on_one_backend_except(
    "test_pooling_is_that_of_torch",
    "TestInverseFrequency::test_weighs_tokens",
    "TestInverseFrequency::test_weights_of_tokens_are_not_trained",
    "TestContrastive::test_the_loss_is_cross_entropy_over_the_batch",
    "TestContrastive::test_what_pairs_share_is_no_negative",
    "TestHardNegatives::test_of_a_data_set",
    "TestGuide::test_masks_what_it_finds_right",
    "TestWidths::test_are_saved",
    "test_texts_and_pairs_take_turns_in_any_form",
)

TEXTS = ["the old hill", "rain", "bread and lamps by the sea in the town", ""]


@pytest.fixture(scope="module")
def embedder(toy_proto):
    """One whose weights are far from the initial ones: vectors differ."""
    return fill_weights(small_embedder(toy_proto))


def cosines(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors[:, 0] * vectors[:, 1]).sum(-1)


class TestEmbed:
    def test_many_texts_in_their_order(self, embedder):
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (4, 32)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-5)
        backwards = embedder.embed(TEXTS[::-1], batch_size=3)
        np.testing.assert_allclose(backwards[::-1], vectors, atol=1e-5)
        np.testing.assert_allclose(embedder.encode_text(TEXTS), vectors, atol=1e-5)

    def test_one_text_pairs_and_none(self, embedder):
        vectors = embedder.embed(TEXTS)
        assert embedder.embed(TEXTS[2]).shape == (32,)
        np.testing.assert_allclose(embedder.embed(TEXTS[2]), vectors[2], atol=1e-5)
        assert embedder.embed([]).shape == (0, 32)
        pairs = embedder.embed((TEXTS[:3], TEXTS[1:]))
        expected = np.stack([vectors[:3], vectors[1:]], axis=1)
        np.testing.assert_allclose(pairs, expected, atol=1e-5)
        assert embedder.embed(("rain", "bread")).shape == (2, 32)


@pytest.mark.parametrize("pooling_mode", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_pooling_is_that_of_torch(tmp_path, pooling_mode, normalize):
    import torch

    inputs = ragged_inputs()
    theirs = save_transformers(tmp_path, num_layers=2)
    states = torch.from_numpy(run_transformers(theirs, inputs)["sequence_output"])
    mask = torch.from_numpy(inputs["padding_mask"]).bool()[..., None]
    expected = {
        "mean": (states * mask).sum(1) / mask.sum(1),
        "cls": states[:, 0],
        "max": states.masked_fill(~mask, -torch.inf).amax(1),
    }[pooling_mode]
    if normalize:
        expected = torch.nn.functional.normalize(expected)
    embedder = AlbertTextEmbedder(
        AlbertBackbone.from_preset(tmp_path, unroll=True),
        pooling_mode=pooling_mode,
        normalize=normalize,
    )
    outputs = embedder.predict(inputs, verbose=0)
    np.testing.assert_allclose(outputs, expected.numpy(), rtol=0, atol=2e-5)


def weighted_mean(embedder, texts, a):
    """Arora et al.'s weights, from the vocabulary's own scores."""
    ids = embedder.preprocessor(texts)
    scores = parse_vocabulary(embedder.preprocessor.tokenizer.proto).pieces
    weights = np.array([a / (a + np.exp(piece.score)) for piece in scores])
    weights = (weights[ids["token_ids"]] * ids["padding_mask"])[..., None]
    states = embedder.backbone(ids)["sequence_output"]
    states = keras.ops.convert_to_numpy(states)
    vectors = (states * weights).sum(1) / weights.sum(1)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def weighted(embedder, toy_proto):
    model = small_embedder(toy_proto, inverse_frequency=0.01)
    # Copies: on JAX, prediction donates the arrays of a model.
    model.backbone.set_weights([np.array(w) for w in embedder.backbone.get_weights()])
    return model


class TestInverseFrequency:
    def test_weighs_tokens(self, weighted, embedder):
        vectors = weighted.embed(TEXTS)
        expected = weighted_mean(weighted, TEXTS, 0.01)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        assert abs(vectors - embedder.embed(TEXTS)).max() > 1e-2

    def test_is_saved(self, weighted, tmp_path):
        weighted.save(tmp_path / "model.keras")
        weighted.save_to_preset(tmp_path / "preset")
        expected = weighted.embed(TEXTS)
        ids = weighted.preprocessor(TEXTS)
        for loaded in (
            keras.saving.load_model(tmp_path / "model.keras"),
            AlbertTextEmbedder.from_preset(tmp_path / "preset"),
        ):
            assert loaded.inverse_frequency == 0.01
            np.testing.assert_allclose(loaded.embed(TEXTS), expected, atol=1e-5)
        # Without texts, too.
        bare = AlbertTextEmbedder.from_preset(tmp_path / "preset", preprocessor=None)
        vectors = bare.predict(ids, verbose=0)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)

    def test_another_weighting_of_a_saved_model(self, weighted, embedder, tmp_path):
        for name, model in (("weighted", weighted), ("plain", embedder)):
            model.save_to_preset(tmp_path / name)
        for name in ("weighted", "plain"):
            again = AlbertTextEmbedder.from_preset(
                tmp_path / name, inverse_frequency=0.5
            )
            expected = weighted_mean(weighted, TEXTS, 0.5)
            np.testing.assert_allclose(again.embed(TEXTS), expected, atol=1e-5)
        with pytest.raises(ValueError, match="or an argument changes shapes"):
            AlbertTextEmbedder.from_preset(
                tmp_path / "weighted", inverse_frequency=None
            )

    def test_weights_of_tokens_are_not_trained(self, toy_proto):
        model = small_embedder(toy_proto, inverse_frequency=0.01)
        before = keras.ops.convert_to_numpy(model.pooling.token_probabilities)
        model.fit(*toy_pairs(8), batch_size=4, verbose=0)
        after = keras.ops.convert_to_numpy(model.pooling.token_probabilities)
        np.testing.assert_array_equal(after, before)

    def test_says_what_is_wrong(self, toy_proto):
        model = parse_vocabulary(toy_proto)
        model.trainer_spec.model_type = model.trainer_spec.ModelType.Value("BPE")
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
        for vocabulary, mode, frequency, message in (
            (toy_proto, "mean", 0.0, "Received: inverse_frequency=0.0"),
            (toy_proto, "cls", 1e-3, "requires the pooling mode 'mean'. Received: 'cl"),
            (
                model.SerializeToString(),
                "mean",
                1e-3,
                "of type BPE has no probabilities",
            ),
            (words, "mean", 1e-3, "A WordPiece vocabulary has no probabilities"),
        ):
            arguments = {"pooling_mode": mode, "inverse_frequency": frequency}
            with pytest.raises(ValueError, match=message):
                small_embedder(vocabulary, **arguments)


class TestWidths:
    def test_are_the_first_numbers(self, embedder, toy_proto):
        whole = embedder.embed(TEXTS)
        expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=-1, keepdims=True)
        narrow = embedder.embed(TEXTS, dim=8)
        np.testing.assert_allclose(narrow, expected, atol=1e-6)
        np.testing.assert_allclose(embedder.embed(TEXTS, dim=32), whole, atol=1e-6)
        np.testing.assert_allclose(embedder.embed("rain", dim=8), narrow[1], atol=1e-6)
        model = small_embedder(toy_proto, normalize=False)
        model.set_weights(embedder.get_weights())
        cut = model.embed(TEXTS)[:, :8]
        np.testing.assert_array_equal(model.embed(TEXTS, dim=8), cut)

    def test_are_saved(self, embedder, toy_proto, tmp_path):
        model = small_embedder(toy_proto, dim=8, matryoshka_dims=(8, 4))
        model.set_weights(embedder.get_weights())
        expected = embedder.embed(TEXTS, dim=8)
        np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
        found = model.embed(TEXTS, truncate=False)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert model.embed([]).shape == (0, 8)
        model.save(tmp_path / "model.keras")
        model.save_to_preset(tmp_path / "preset")
        for loaded in (
            keras.saving.load_model(tmp_path / "model.keras"),
            AlbertTextEmbedder.from_preset(tmp_path / "preset"),
        ):
            assert loaded.matryoshka_dims == (8, 4)
            np.testing.assert_array_equal(loaded.embed(TEXTS), model.embed(TEXTS))
        whole = AlbertTextEmbedder.from_preset(tmp_path / "preset", dim=None)
        np.testing.assert_array_equal(whole.embed(TEXTS), embedder.embed(TEXTS))

    def test_learn_similarities(self, toy_proto):
        x, y = toy_pairs(64)
        model = small_embedder(toy_proto, matryoshka_dims=(32, 4))
        model.compile(learning_rate=4e-3)
        model.fit(x, y, batch_size=16, epochs=6, verbose=0)
        both = [np.mean((cosines(model.embed(x, dim=dim)) - y) ** 2) for dim in (32, 4)]
        assert max(both) < 0.1
        loss, _ = model.evaluate(x, y, verbose=0)
        assert loss == pytest.approx(np.mean(both), abs=1e-4)

    def test_say_what_is_wrong(self, embedder, toy_proto):
        for call, message in (
            (
                lambda: embedder.embed("a", dim=33),
                "`dim` must be a width from 1 to 32.* 33",
            ),
            (lambda: small_embedder(toy_proto, dim=0), "from 1 to 32.*Received: 0"),
            (
                lambda: small_embedder(toy_proto, dim=8, matryoshka_dims=(16,)),
                "`matryoshka_dims` must be a width from 1 to 8, .*16",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                call()


class TestCosine:
    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            ((["a", "b"], ["c", "d"]), [0.5, 5.0], "Row 1 has the similarity 5.0, but"),
            ((["a", "b"], ["c", "d"]), [0.5, "x"], "Row 1 has the label 'x'"),
            (["a", "b"], [0.5, 0.5], "A similarity compares two texts"),
            ((["a", "b"], ["c", "d"]), None, "A loss needs targets"),
        ],
    )
    def test_says_what_is_wrong(self, embedder, x, y, message):
        for method in (embedder.fit, embedder.evaluate):
            with pytest.raises(ValueError, match=message):
                method(x, y)


class TestContrastive:
    def make(self, proto, **kwargs):
        return small_embedder(proto, objective="contrastive", **kwargs)

    def test_learns_to_find_the_second_text(self, toy_proto):
        words = ["rain", "bread", "lamps", "storm", "hill", "sea", "town", "river"]
        x = ([f"the {word}" for word in words], [f"{word} of old" for word in words])
        embedder = self.make(toy_proto)
        embedder.compile(learning_rate=4e-3)
        before = embedder.evaluate(x, verbose=0, return_dict=True)
        embedder.fit(x, validation_data=(x,), batch_size=8, epochs=24, verbose=0)
        history = embedder.fit(x, validation_split=0.5, verbose=0).history
        assert np.isfinite(history["val_loss"]).all()
        after = embedder.evaluate(x, verbose=0, return_dict=True)
        assert sorted(after) == ["accuracy", "loss"]
        assert after["loss"] < before["loss"] / 2
        assert after["accuracy"] > 0.9

    def test_the_loss_is_cross_entropy_over_the_batch(self, toy_proto, embedder):
        model = self.make(toy_proto, temperature=0.2)
        model.set_weights(embedder.get_weights())
        x = (["rain", "bread", "lamps"], ["storm", "the hill", "sea"])
        vectors = model.embed(x)
        scores = vectors[:, 0] @ vectors[:, 1].T / 0.2
        expected = np.log(np.exp(scores).sum(1)) - np.diag(scores)
        loss, accuracy = model.evaluate(x, verbose=0)
        assert loss == pytest.approx(expected.mean(), abs=1e-4)
        hits = scores.argmax(1) == np.arange(3)
        assert accuracy == pytest.approx(hits.mean(), abs=1e-6)

    def test_what_pairs_share_is_no_negative(self, toy_proto, embedder):
        model = self.make(toy_proto)
        model.set_weights(embedder.get_weights())
        alone = model.evaluate((["rain"], ["storm"]), verbose=0)
        assert alone[0] == pytest.approx(0, abs=1e-6)
        same = (["rain", "rain", "bread"], ["storm", "sea", "sea"])
        vectors = model.embed(same)
        scores = vectors[:, 0] @ vectors[:, 1].T / 0.05
        shared = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
        scores[shared] = -np.inf
        expected = np.log(np.exp(scores).sum(1)) - np.diag(scores)
        loss, _ = model.evaluate(same, verbose=0)
        assert loss == pytest.approx(expected.mean(), abs=1e-3)

    def test_says_what_is_wrong(self, toy_proto):
        model = self.make(toy_proto)
        for call, message in (
            (lambda: model.fit((["a"], ["b"]), [1.0]), "takes pairs without similar"),
            (lambda: model.fit(["a", "b"]), r"trained on pairs of texts\. Pass them"),
            (lambda: self.make(toy_proto, temperature=0.0), "temperature=0.0"),
            (lambda: self.make(toy_proto, pooling_mode="sum"), "Received: mode='sum'"),
            (lambda: small_embedder(toy_proto, objective="a"), "objective='a'"),
        ):
            with pytest.raises(ValueError, match=message):
                call()


WORDS = ["rain", "bread", "lamps", "storm", "hill", "sea", "town", "river"]
TRIPLETS = (
    [f"the {word}" for word in WORDS],
    [f"{word} of old" for word in WORDS],
    [f"{word} of old" for word in WORDS[1:] + WORDS[:1]],
)


class TestHardNegatives:
    def test_are_learned_in_any_form(self, toy_proto):
        import torch
        from torch.utils.data import DataLoader

        rows = [(row,) for row in zip(*TRIPLETS, strict=True)]
        table = dict(zip(("question", "right", "wrong"), TRIPLETS, strict=True))
        loader = DataLoader(rows, batch_size=8, generator=torch.Generator())
        losses = []
        names = {"text": "question", "text_pair": ["right", "wrong"]}
        for x, options in (
            (TRIPLETS, {}),
            ([row for (row,) in rows], {}),
            (table, names),
            (loader, {}),
        ):
            model = small_embedder(toy_proto, objective="contrastive")
            held_out = (x,) if isinstance(x, tuple) else x
            history = model.fit(
                x, validation_data=held_out, verbose=0, **options
            ).history
            assert history["val_loss"][0] < history["loss"][0]
            losses.append(history["loss"][0])
        np.testing.assert_allclose(losses, losses[0], atol=1e-4)

    def test_of_a_data_set(self, toy_proto):
        tf = pytest.importorskip("tensorflow")
        model = small_embedder(toy_proto, objective="contrastive", mini_batch_size=5)
        expected = model.evaluate(TRIPLETS, batch_size=8, verbose=0)
        dataset = tf.data.Dataset.from_tensor_slices((TRIPLETS,)).batch(8)
        found = model.evaluate(dataset, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert np.isfinite(model.fit(dataset, verbose=0).history["loss"]).all()

    def test_are_embedded(self, embedder):
        vectors = embedder.embed(TRIPLETS)
        assert vectors.shape == (8, 3, 32)
        third = embedder.embed(TRIPLETS[2])
        np.testing.assert_allclose(vectors[:, 2], third, atol=1e-5)
        with pytest.raises(ValueError, match=r"Received: 2 and 2 and 1\."):
            embedder.embed((["a", "b"], ["c", "d"], ["e"]))


class TestGuide:
    def test_masks_what_it_finds_right(self, toy_proto):
        asked = []

        def guide(texts):
            # Nearest to a text is itself, then its partner.
            asked.extend(texts)
            numbers = [
                next(n for n, word in enumerate(WORDS) if word in text)
                for text in texts
            ]
            return np.eye(8)[numbers] + (0.1 if "the" in texts[0] else 0.3)

        x = TRIPLETS[:2]
        model = small_embedder(toy_proto, objective="contrastive", temperature=0.2)
        vectors = model.embed(x)
        unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
        first, second = unit[:, 0], unit[:, 1]
        own = np.eye(8, dtype=bool)
        parts = [first @ second.T, first @ first.T, second @ second.T]
        scores = np.concatenate(parts, axis=1) / 0.2
        scores[:, 8:16][own] = scores[:, 16:][own] = -np.inf  # themselves
        expected = np.mean(np.log(np.exp(scores).sum(1)) - scores[:, :8][own])
        history = model.fit(x, batch_size=8, epochs=2, guide=guide, verbose=0).history
        assert history["loss"][0] == pytest.approx(expected, abs=1e-4)
        # Once, not in each epoch.
        assert asked == [*x[0], *x[1]]
        assert model._guide is None

    def test_says_what_is_wrong(self, toy_proto, embedder):
        model = small_embedder(toy_proto, objective="contrastive")
        x = TRIPLETS[:2]
        with pytest.raises(ValueError, match="the objective 'cosine' has none"):
            embedder.fit(x, np.zeros(8), guide=embedder.embed)
        with pytest.raises(ValueError, match="A `guide` reads texts, but `x` has ids"):
            model.fit(model.preprocessor(x), guide=embedder.embed)
        assert model._guide is None


def test_search(toy_proto, embedder):
    corpus = ["rain", "bread", "lamps", "by the sea", "hill"]
    rows, cosines = embedder.search(corpus, ["lamps", "rain"], top_k=2)
    assert rows[:, 0].tolist() == [2, 0]
    np.testing.assert_allclose(cosines[:, 0], 1, atol=1e-5)
    one, its_cosines = embedder.search(embedder.embed(corpus), "lamps", top_k=2)
    np.testing.assert_array_equal(one, rows[0])
    np.testing.assert_allclose(its_cosines, cosines[0], atol=1e-5)
    prompted = small_embedder(toy_proto)
    prompted.set_weights(embedder.get_weights())
    prompted.preprocessor.prompts = {"query": "the old ", "document": "the old "}
    rows, cosines = prompted.search(corpus, "lamps", top_k=1)
    assert corpus[rows[0]] == "lamps"
    assert cosines[0] == pytest.approx(1, abs=1e-5)
    vectors = embedder.embed([f"the old {text}" for text in corpus])
    rows, cosines = prompted.search(vectors, "lamps", top_k=1)
    assert cosines[0] == pytest.approx(1, abs=1e-5)


def test_texts_and_pairs_take_turns_in_any_form(toy_proto):
    tf = pytest.importorskip("tensorflow")
    x, _ = toy_pairs(8)
    embedder = small_embedder(toy_proto)
    expected = embedder.embed(x)
    batches = tf.data.Dataset.from_tensor_slices((x,)).batch(4)
    # TensorFlow would trace one program for both, of tensors of any rank.
    for pairs in (batches, embedder.preprocessor(x)):
        np.testing.assert_allclose(
            embedder.predict(pairs, verbose=0), expected, atol=1e-5
        )
        np.testing.assert_allclose(embedder.embed(x[0]), expected[:, 0], atol=1e-5)
    for one in (x, embedder.preprocessor(x)):
        np.testing.assert_allclose(embedder.predict_on_batch(one), expected, atol=1e-5)
    np.testing.assert_allclose(
        embedder.predict_on_batch(x[0]), expected[:, 0], atol=1e-5
    )
