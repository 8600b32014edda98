import re
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertMaskedLM, compress
from keras_albert.compression.factorization import factorize

IDS = {
    "token_ids": np.array([[2, 7, 9, 30, 3, 0], [2, 11, 5, 8, 21, 3]]),
    "segment_ids": np.array([[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]]),
    "padding_mask": np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]),
}


def bert(num_layers=4, embedding_dim=16, num_groups=None, **kwargs):
    keras.utils.set_random_seed(3)
    backbone = AlbertBackbone(
        vocabulary_size=60,
        num_layers=num_layers,
        num_heads=2,
        embedding_dim=embedding_dim,
        hidden_dim=16,
        intermediate_dim=32,
        num_groups=num_groups or num_layers,
        max_sequence_length=8,
        **kwargs,
    )
    generator = np.random.default_rng(5)
    for weight in backbone.weights:
        noise = generator.normal(0, 0.1, weight.shape)
        weight.assign(ops.convert_to_numpy(weight) + noise)
    return backbone


def outputs(model):
    return ops.convert_to_numpy(model(IDS)["sequence_output"])


def error_of_embeddings(old, new):
    a, b = (
        ops.convert_to_numpy(m.embedding(IDS["token_ids"], IDS["segment_ids"]))
        for m in (old, new)
    )
    return ((a - b) ** 2).sum() / (a**2).sum()


def test_the_same_sizes_return_the_same_model_in_other_variables():
    old = bert()
    new = compress(old)
    np.testing.assert_array_equal(outputs(old), outputs(new))
    new.weights[0].assign(new.weights[0] * 0)
    assert np.abs(ops.convert_to_numpy(old.weights[0])).max() > 0


def test_layers_that_are_equal_can_share_their_weights():
    old = bert()
    for block in old.encoder.blocks[1:]:
        block.set_weights(old.encoder.blocks[0].get_weights())
    new = compress(old, num_groups=1)
    assert len(new.encoder.blocks) == 1
    np.testing.assert_allclose(outputs(old), outputs(new), atol=1e-6)


def test_a_group_has_the_mean_of_its_layers():
    old = bert()
    new = compress(old, num_groups=2)
    kernels = [ops.convert_to_numpy(b.query.kernel) for b in old.encoder.blocks]
    merged = ops.convert_to_numpy(new.encoder.blocks[1].query.kernel)
    np.testing.assert_allclose(merged, (kernels[2] + kernels[3]) / 2, atol=1e-7)


def test_fewer_layers_keep_the_first_and_the_last():
    old = bert(num_layers=6)
    new = compress(old, num_layers=3)
    assert (new.num_layers, new.num_groups) == (3, 3)
    for place, block in zip((0, 2, 5), new.encoder.blocks, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(block.key.kernel),
            ops.convert_to_numpy(old.encoder.blocks[place].key.kernel),
        )


@pytest.mark.parametrize("embedding_dim", [16, 12])
def test_embeddings_of_low_rank_are_reproduced(embedding_dim):
    # With a projection before (12) and without one.
    old = bert(embedding_dim=embedding_dim)
    for table in (
        old.embedding.token_embedding.embeddings,
        old.embedding.position_embedding.position_embeddings,
        old.embedding.segment_embedding.embeddings,
    ):
        values = ops.convert_to_numpy(table)
        values[:, 5:] = 0
        values -= values.mean(axis=1, keepdims=True)
        table.assign(values)
    new = compress(old, embedding_dim=8)
    assert error_of_embeddings(old, new) < 1e-9
    assert error_of_embeddings(old, compress(old, embedding_dim=3)) > 1e-3


def test_frequent_tokens_are_reproduced_better():
    old = bert()
    counts = np.zeros(60)
    counts[np.unique(IDS["token_ids"])] = 1.0
    alike = compress(old, embedding_dim=6)
    weighted = compress(old, embedding_dim=6, token_counts=counts)
    assert error_of_embeddings(old, weighted) < error_of_embeddings(old, alike)


def test_the_factors_depend_on_the_seed_alone():
    old = bert()
    first, again, other = (factorize(old.embedding, 6, None, s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.kernel, again.kernel)
    assert not np.array_equal(first.kernel, other.kernel)


def test_a_task_keeps_its_labels_and_its_head():
    task = AlbertClassifier(bert(), num_classes=2, labels=["no", "yes"])
    new = compress(task, num_groups=2)
    assert type(new) is AlbertClassifier
    assert new.labels == task.labels
    names = [w.path for w in new.weights]
    assert "logits/kernel" in " ".join(names)
    old_head, new_head = (
        ops.convert_to_numpy(m.get_layer("logits").kernel) for m in (task, new)
    )
    np.testing.assert_array_equal(old_head, new_head)
    assert new.predict(IDS, verbose=0).shape == (2, 2)


def test_a_head_as_wide_as_the_embeddings_is_new_and_a_warning_names_it():
    task = AlbertMaskedLM(bert())
    # `pytest.warns` would raise Keras' own deprecation warnings again.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        new = compress(task, embedding_dim=8)
    [message] = [str(w.message) for w in caught if w.category is UserWarning]
    assert re.search("transform/kernel.*Train the model", message)
    assert new.backbone.embedding_dim == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_groups": 3}, "must divide the number of layers.*num_groups=3"),
        ({"num_groups": 8}, "can only be reduced, and the model's is 4"),
        ({"embedding_dim": 32}, "can only be reduced"),
        ({"num_layers": 0}, "at least 1"),
        ({"token_counts": np.ones(3)}, "each of the 60 tokens"),
        ({"token_counts": np.full(60, np.nan)}, "must be finite"),
    ],
)
def test_wrong_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        compress(bert(), **arguments)


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="Received: model=Sequential"):
        compress(keras.Sequential([keras.layers.Dense(2)]))


def test_a_quantized_model_is_refused():
    old = bert()
    old.quantize("int8")
    with pytest.raises(ValueError, match="before `quantize`"):
        compress(old, num_groups=2)
