import re
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertTokenizer,
    compress,
    merge_adapters,
)
from keras_albert.text.tokenizer.word_piece import WordPieceRules

CASED = WordPieceRules(lowercase=False)
IDS = {
    "token_ids": np.array([[2, 7, 9, 30, 3, 0], [2, 11, 5, 8, 21, 3]]),
    "segment_ids": np.array([[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]]),
    "padding_mask": np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]),
}


def bert(num_layers=4, embedding_dim=16, num_groups=None, **kwargs):
    keras.utils.set_random_seed(3)
    kwargs = {"num_groups": num_groups or num_layers, "max_sequence_length": 8} | kwargs
    backbone = AlbertBackbone(60, num_layers, 2, embedding_dim, 16, 32, **kwargs)
    generator = np.random.default_rng(5)
    for weight in backbone.weights:
        noise = generator.normal(0, 0.1, weight.shape)
        weight.assign(ops.convert_to_numpy(weight) + noise)
    return backbone


def assert_equal(found, expected, atol=0.0):
    """The weights of two models or layers are equal."""
    pairs = zip(found.weights, expected.weights, strict=True)
    for pair in pairs:
        np.testing.assert_allclose(*map(ops.convert_to_numpy, pair), rtol=0, atol=atol)


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


def test_a_group_starts_as_its_last_layer():
    old = bert()
    new = compress(old, num_groups=2)
    for block, place in zip(new.encoder.blocks, (1, 3), strict=True):
        assert_equal(block, old.encoder.blocks[place])


@pytest.mark.parametrize("num_groups", [1, 2, 4])
@pytest.mark.parametrize("num_inner_repetitions", [1, 2])
def test_adapters_of_full_rank_keep_all_of_a_model(num_groups, num_inner_repetitions):
    old = bert(num_inner_repetitions=num_inner_repetitions)
    new = compress(old, num_groups=num_groups, adapter_rank=16)
    np.testing.assert_allclose(outputs(old), outputs(new), atol=1e-4)
    merged = merge_adapters(new)
    assert (merged.num_groups, merged.adapter_rank) == (4, None)
    np.testing.assert_allclose(outputs(old), outputs(merged), atol=1e-4)
    # A model with adapters is compressed as its layers are.
    again = compress(new, num_groups=1, num_layers=2, adapter_rank=0)
    last = compress(old, num_groups=1, num_layers=2)
    assert again.adapter_rank is None
    np.testing.assert_allclose(outputs(last), outputs(again), atol=1e-4)


def test_adapters_come_closer_with_each_rank_and_all_can_learn():
    old = bert()

    def error(rank):
        new = compress(old, num_groups=1, adapter_rank=rank)
        return np.abs(outputs(old) - outputs(new)).mean()

    errors = [error(rank) for rank in (0, 2, 8, 12)]
    assert errors == sorted(errors, reverse=True)
    new = compress(old, num_groups=1, adapter_rank=20)
    for name in ("query_a", "feedforward_output_a"):
        [a] = [w for w in new.encoder.adapters.weights if w.name == name]
        assert (np.abs(ops.convert_to_numpy(a)).max(axis=1) > 0).all()


def test_adapters_learn_in_the_compiled_loop():
    model = compress(
        AlbertClassifier(bert(), num_classes=2), num_groups=1, adapter_rank=2
    )
    adapters = model.backbone.encoder.adapters.by_name()
    before = {name: ops.convert_to_numpy(v) for name, v in adapters.items()}
    # The default, XLA on TensorFlow and JAX.
    model.fit(IDS, np.array([0, 1]), epochs=1, verbose=0)
    for name, variable in adapters.items():
        # A bias of the keys shifts all scores of a query equally.
        change = np.abs(ops.convert_to_numpy(variable) - before[name])
        assert name == "key_bias" or (change.reshape(4, -1).max(axis=1) > 0).all()


def test_adapters_stay_as_they_are_with_narrower_embeddings():
    old = compress(bert(), num_groups=2, adapter_rank=2)
    new = compress(old, embedding_dim=8)
    assert_equal(new.encoder, old.encoder)


def test_fewer_layers_keep_the_first_and_the_last():
    old = bert(num_layers=6)
    new = compress(old, num_layers=3)
    assert (new.num_layers, new.num_groups) == (3, 3)
    for place, block in zip((0, 2, 5), new.encoder.blocks, strict=True):
        assert_equal(block.key, old.encoder.blocks[place].key)


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


def test_a_task_keeps_its_labels_and_its_head():
    task = AlbertClassifier(bert(), labels=["no", "yes"], set_threshold=0.3)
    new = compress(task, num_groups=2)
    assert type(new) is AlbertClassifier
    assert new.labels == task.labels
    assert new.set_threshold is None
    assert "logits/kernel" in " ".join(weight.path for weight in new.weights)
    assert_equal(new.get_layer("logits"), task.get_layer("logits"))
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


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = [*SPECIAL, "cat", "s", "##s", "sing", "in", "##g", "##ing", "the", "."]
NEW = ["[MASK]", *SPECIAL[:4], "##ing", "cats", "##ings", "The", "##s.", "sings"]


def masked_lm(pieces=OLD, **kwargs):
    preprocessor = AlbertMaskedLMPreprocessor(
        AlbertTokenizer(pieces), max_sequence_length=8
    )
    return AlbertMaskedLM(bert(**kwargs), preprocessor=preprocessor)


def test_new_pieces_are_the_mean_of_the_old_ones_that_their_text_has():
    task = masked_lm()
    bias = np.arange(60.0)
    task.masked_lm_head.output_bias.assign(bias)
    new = compress(task, vocabulary=AlbertTokenizer(NEW, text_rules=CASED))
    old_table, table = (
        ops.convert_to_numpy(m.backbone.token_embedding.embeddings) for m in (task, new)
    )
    expected = {
        "[CLS]": ["[CLS]"],
        "[MASK]": ["[MASK]"],
        "##ing": ["##ing"],
        "cats": ["cat", "##s"],
        # "in" has no form for the inside of a word.
        "##ings": ["in", "##g", "##s"],
        "The": ["the"],
        "##s.": ["##s", "."],
        "sings": ["sing", "##s"],
    }
    new_bias = ops.convert_to_numpy(new.masked_lm_head.output_bias)
    assert table.shape == (len(NEW), 16)
    for piece, pieces in expected.items():
        ids = [OLD.index(each) for each in pieces]
        row = NEW.index(piece)
        np.testing.assert_allclose(table[row], old_table[ids].mean(0), atol=1e-6)
        np.testing.assert_allclose(new_bias[row], bias[ids].mean(), atol=1e-6)
    assert new.preprocessor.tokenizer.get_vocabulary() == NEW
    assert new.preprocessor.max_sequence_length == 8
    assert task.preprocessor.tokenizer.get_vocabulary() == OLD


@pytest.mark.filterwarnings("ignore:These weights of the head depend")
@pytest.mark.parametrize("as_path", [True, False])
def test_a_sentence_piece_vocabulary_for_a_word_piece(tiny_proto, tmp_path, as_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(tiny_proto)
    new = compress(
        masked_lm(),
        vocabulary=path if as_path else AlbertTokenizer(tiny_proto),
        embedding_dim=None if as_path else 8,
        token_counts=np.ones(AlbertTokenizer(tiny_proto).vocabulary_size()),
    )
    assert new.backbone.vocabulary_size == AlbertTokenizer(tiny_proto).vocabulary_size()
    assert new.fill_mask("the [MASK].")
    # Back to the same vocabulary nothing changes, whatever its kind.
    again = compress(new, vocabulary=new.preprocessor)
    assert_equal(again, new, atol=1e-7)


@pytest.mark.parametrize(
    ("vocabulary", "error", "message"),
    [
        (7, TypeError, "Received a vocabulary of type int"),
        (AlbertTokenizer(), ValueError, "No vocabulary has been set"),
        ("no/such/file", ValueError, "no/such/file"),
    ],
)
def test_what_is_no_vocabulary_is_refused(vocabulary, error, message):
    with pytest.raises(error, match=message):
        compress(masked_lm(), vocabulary=vocabulary)


def test_a_vocabulary_needs_that_of_the_model():
    with pytest.raises(ValueError, match=r"AlbertBackbone without one\. Pass a task"):
        compress(bert(), vocabulary=AlbertTokenizer(OLD))
    message = "each of the 11 tokens"
    with pytest.raises(ValueError, match=message):
        compress(masked_lm(), vocabulary=AlbertTokenizer(NEW), token_counts=np.ones(60))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_groups": 8}, "can only be reduced, and the model's is 4"),
        ({"embedding_dim": 32}, "can only be reduced"),
        ({"num_layers": 0}, "at least 1"),
        ({"adapter_rank": -1}, "`adapter_rank` must be a whole number, at least 0"),
        ({"token_counts": np.ones(3)}, "each of the 60 tokens"),
        ({"token_counts": np.full(60, np.nan), "embedding_dim": 8}, "contain NaN"),
    ],
)
def test_wrong_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        compress(bert(), **arguments)


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="Received: model=Sequential"):
        compress(keras.Sequential([keras.layers.Dense(2)]))


@pytest.mark.parametrize("change", [compress, merge_adapters])
def test_quantized_models_and_lora_are_refused(change):
    old = bert(adapter_rank=2)
    old.enable_lora(2)
    with pytest.raises(ValueError, match=r"has LoRA weights.*load it again"):
        change(old)
    old = bert(adapter_rank=2)
    old.quantize("int8")
    with pytest.raises(ValueError, match=r"is quantized to int8.*before `quantize`"):
        change(old)


def test_a_view_is_compressed_at_its_depth():
    classifier = AlbertClassifier(bert(adapter_rank=2, num_groups=1), num_classes=2)
    view = classifier.with_num_layers(2)
    small = compress(view)
    assert small.backbone.num_layers == 2
    found, expected = (ops.convert_to_numpy(model(IDS)) for model in (small, view))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    merged = merge_adapters(view)
    np.testing.assert_allclose(ops.convert_to_numpy(merged(IDS)), expected, atol=1e-5)
