"""Layers of the tasks' heads."""

import keras
import numpy as np
import pytest

from keras_albert.layers import ConditionalSpanHead, MaskedLMHead
from keras_albert.layers.encoder import MaskedPooling
from keras_albert.layers.heads import (
    MASKED_LOGIT,
    MISSING_CHOICE,
    ChoiceScores,
    ChoicesToRows,
    ExitHeads,
    span_mask,
)
from tests.compiled import to_numpy

SEQUENCE = np.array([[[1.0, -5.0], [3.0, -7.0], [90.0, 80.0]]], "float32")


def pool(mode, sequence, mask):
    return keras.ops.convert_to_numpy(MaskedPooling(mode)(sequence, mask))


@pytest.mark.parametrize(
    ("mode", "mask", "expected"),
    [
        ("mean", [1, 1, 0], [2, -6]),
        ("max", [1, 1, 0], [3, -5]),
        ("cls", [1, 1, 0], [1, -5]),
        ("mean", [1, 0, 0], [1, -5]),
        ("mean", [0, 0, 0], [0, 0]),
    ],
)
def test_padding_is_ignored(mode, mask, expected):
    outputs = pool(mode, SEQUENCE, np.array([mask]))
    np.testing.assert_allclose(outputs, [expected], atol=1e-6)
    # Also if it contains NaN.
    if mask[0]:
        broken = np.where(np.array([mask])[..., None] == 1, SEQUENCE, np.nan)
        np.testing.assert_allclose(pool(mode, broken, np.array([mask])), [expected])


def test_the_mean_weighs_tokens():
    pooling = MaskedPooling("mean", inverse_frequency=0.5, vocabulary_size=4)
    mask, ids = np.array([[1, 1, 0]]), np.array([[2, 0, 3]])
    # Equal weights at first.
    outputs = keras.ops.convert_to_numpy(pooling(SEQUENCE, mask, ids))
    np.testing.assert_allclose(outputs, [[2, -6]], atol=1e-6)
    # Weights of 0.5 and 1.
    pooling.token_probabilities.assign([0.0, 1.0, 0.5, 1.0])
    outputs = keras.ops.convert_to_numpy(pooling(SEQUENCE, mask, ids))
    np.testing.assert_allclose(outputs, [[7 / 3, -19 / 3]], atol=1e-6)
    assert MaskedPooling.from_config(pooling.get_config()).inverse_frequency == 0.5


def make_head(**kwargs):
    return MaskedLMHead(keras.layers.ReversibleEmbedding(30, 4), **kwargs)


def test_mask_positions_select_from_all_scores():
    head = make_head()
    encoded = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    scores = to_numpy(head(encoded))
    assert scores.shape == (2, 5, 30)
    picked = to_numpy(head(encoded, np.array([[4, 0, 0], [2, 1, 3]])))
    np.testing.assert_allclose(picked[0], scores[0, [4, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(picked[1], scores[1, [2, 1, 3]], atol=1e-6)


def test_scores_use_the_token_embeddings():
    head = make_head()
    encoded = np.ones((1, 1, 8), "float32")
    head(encoded)
    before = to_numpy(head(encoded))
    head.output_bias.assign(np.arange(30))
    table = to_numpy(head.token_embedding.embeddings)
    np.testing.assert_allclose(to_numpy(head(encoded)), before + np.arange(30), 1e-5)
    head.token_embedding.embeddings.assign(-table)
    np.testing.assert_allclose(
        to_numpy(head(encoded)), np.arange(30) - before, rtol=1e-5, atol=1e-6
    )


def test_symbolic_shapes():
    head = make_head(dtype="mixed_bfloat16")
    encoded = keras.Input((None, 8), dtype="bfloat16")
    scores = head(encoded, keras.Input((7,), dtype="int32"))
    assert scores.shape == (None, 7, 30)
    assert scores.dtype == "float32"
    assert head(encoded).shape == (None, None, 30)
    assert to_numpy(head(np.ones((1, 2, 8), "float32"))).dtype == "float32"


@pytest.mark.parametrize("activation", ["gelu_approximate", "relu"])
def test_config_round_trip(activation):
    head = make_head(activation=activation, layer_norm_epsilon=1e-6, name="head")
    encoded = np.ones((1, 2, 8), "float32")
    expected = to_numpy(head(encoded))
    copy = MaskedLMHead.from_config(head.get_config())
    copy(encoded)
    copy.set_weights(head.get_weights())
    np.testing.assert_allclose(to_numpy(copy(encoded)), expected, atol=1e-6)
    assert copy.layer_norm.epsilon == 1e-6


def test_rows_and_scores_of_choices():
    ids = np.arange(24).reshape(2, 3, 4).astype("int32")
    mask = np.ones((2, 3, 4), "int32")
    mask[1, 2] = 0
    mask[0, 1, 2:] = 0
    rows = to_numpy(ChoicesToRows()({"token_ids": ids, "padding_mask": mask}))
    np.testing.assert_array_equal(rows["token_ids"], ids.reshape(6, 4))
    # A missing choice has one position unmasked; the masks of all others are unchanged.
    expected = mask.reshape(6, 4).copy()
    expected[5, 0] = 1
    np.testing.assert_array_equal(rows["padding_mask"], expected)
    scores = to_numpy({"": ChoiceScores()(np.arange(6.0)[:, None], mask)})[""]
    np.testing.assert_array_equal(scores, [[0, 1, 2], [3, 4, MISSING_CHOICE]])


# [CLS] question [SEP] a b c [SEP] padding; and the same without padding.
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1]])
PADDING = np.array([[1, 1, 1, 1, 1, 1, 1, 0], [1] * 8])
MASK = np.array([[1, 0, 0, 1, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]], bool)


@pytest.fixture(scope="module")
def tokens():
    return np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")


@pytest.fixture(scope="module")
def head():
    head = ConditionalSpanHead(dropout=0.5)
    head.build((None, None, 6))
    rng = np.random.default_rng(1)
    for weight in head.weights:
        weight.assign(rng.normal(size=weight.shape, scale=0.5))
    return head


def run(head, tokens, starts, **kwargs):
    return to_numpy(
        head(
            tokens,
            segment_ids=SEGMENTS,
            padding_mask=PADDING,
            start_positions=np.array(starts),
            **kwargs,
        )
    )


def reference(head, tokens, starts):
    """Compute the head by the reference's definition, one start at a time."""
    weights = {w.path.split("/", 1)[-1]: to_numpy(w.value) for w in head.weights}

    def dense(x, name):
        return x @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0)

    start = np.where(MASK, dense(tokens, "start")[..., 0], MASKED_LOGIT)
    ends = []
    for column in np.transpose(starts):
        feature = tokens[np.arange(len(tokens)), column]
        pairs = np.concatenate(
            [tokens, np.repeat(feature[:, None], tokens.shape[1], axis=1)], axis=-1
        )
        x = np.tanh(dense(pairs, "end_dense"))
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        x = x * weights["end_layer_norm/gamma"] + weights["end_layer_norm/beta"]
        ends.append(np.where(MASK, dense(x, "end")[..., 0], MASKED_LOGIT))
    chances = np.exp(start - start.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    expected = np.einsum("bl,blh->bh", chances, tokens)
    x = np.concatenate([expected, tokens[:, 0]], axis=-1)
    x = np.tanh(dense(x, "answerability_dense"))
    return {
        "start_logits": start,
        "end_logits": np.stack(ends, axis=1),
        "answerability": dense(x, "answerability"),
    }


def test_only_cls_and_the_context_are_unmasked():
    np.testing.assert_array_equal(to_numpy(span_mask(SEGMENTS, PADDING)), MASK)


def test_outputs_equal_the_reference(head, tokens):
    starts = [[3, 5], [6, 4]]
    found, expected = run(head, tokens, starts), reference(head, tokens, starts)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=2e-6)


def test_unknown_starts_are_the_most_likely(head, tokens):
    found = run(head, tokens, [[-1, -1, -1]] * 2)
    order = np.argsort(-found["start_logits"], axis=1)[:, :3]
    given = run(head, tokens, order)
    np.testing.assert_allclose(found["end_logits"], given["end_logits"], rtol=1e-5)
    # A row may mix known and unknown starts.
    mixed = order.copy()
    mixed[:, 1] = -1
    mixed = run(head, tokens, mixed)
    np.testing.assert_allclose(mixed["end_logits"], given["end_logits"], rtol=1e-5)


def test_more_starts_than_positions_repeat_the_last(head, tokens):
    found = run(head, tokens, [[-1] * 10] * 2)["end_logits"]
    assert found.shape == (2, 10, 8)
    np.testing.assert_allclose(found[:, 7], found[:, 9], rtol=1e-5, atol=2e-6)
    assert np.abs(found[:, 6] - found[:, 7]).max() > 0.01


def test_dropout_only_in_training(head, tokens):
    starts = [[3], [4]]
    first = run(head, tokens, starts, training=True)
    second = run(head, tokens, starts, training=True)
    assert not np.allclose(first["answerability"], second["answerability"])
    np.testing.assert_array_equal(first["end_logits"], second["end_logits"])


def test_logits_are_float32_in_mixed_precision(tokens):
    head = ConditionalSpanHead(dtype="mixed_bfloat16")
    outputs = run(head, tokens, [[3], [4]])
    assert {str(array.dtype) for array in outputs.values()} == {"float32"}
    config = ConditionalSpanHead.from_config(head.get_config()).get_config()
    assert config == head.get_config()


X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def test_one_head_equals_all_of_them():
    heads = ExitHeads(4, units=5, activation="sigmoid")
    heads.build(X.shape)
    assert len({row.tobytes() for row in to_numpy(heads.kernel.value)}) == 4
    heads.bias.assign(np.arange(20).reshape(4, 5))
    together = to_numpy(heads(X))
    for number in range(3):
        alone = to_numpy(heads(X[:, number], exit=number))
        np.testing.assert_allclose(alone, together[:, number], atol=1e-6)
        kernel, bias = (to_numpy(v.value)[number] for v in (heads.kernel, heads.bias))
        expected = 1 / (1 + np.exp(-(X[:, number] @ kernel + bias)))
        np.testing.assert_allclose(alone, expected, atol=1e-5)
