import json
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.conversion import TRANSFORMERS
from keras_albert.conversion.config import backbone_arguments
from keras_albert.presets.checkpoint_formats import find_format
from tests.compiled import to_numpy
from tests.foreign_models import TINY, change_config, ragged_inputs, save_transformers

WEIGHTS = "model.safetensors"
INPUTS = ragged_inputs()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    directory = tmp_path_factory.mktemp("transformers")
    arguments = {"num_groups": 2, "num_inner_repetitions": 2}
    save_transformers(directory, "AlbertForPreTraining", **arguments)
    config = json.loads((directory / "config.json").read_text())
    return config, load_file(directory / WEIGHTS)


@pytest.fixture
def checkpoint(original, tmp_path):
    """A fresh copy to damage."""
    config, tensors = original
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / WEIGHTS)
    return tmp_path


def _change_tensors(directory, change):
    tensors = load_file(directory / WEIGHTS)
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def _backbone_part(tensors):
    return {k: v for k, v in tensors.items() if k.startswith("albert.")}


def test_a_round_trip_changes_nothing(original, checkpoint):
    backbone = AlbertBackbone.from_preset(checkpoint)
    dumped = TRANSFORMERS.dump(backbone)
    expected = _backbone_part(original[1])
    assert dumped.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(dumped[name], expected[name])
    assert backbone.pretrained


def test_the_prefix_is_found_out(original, checkpoint):
    bare = {
        name.removeprefix("albert."): value
        for name, value in _backbone_part(original[1]).items()
    }
    save_file(bare, checkpoint / WEIGHTS)
    backbone = AlbertBackbone.from_preset(checkpoint)
    dumped = TRANSFORMERS.dump(backbone)
    assert dumped.keys() == {f"albert.{name}" for name in bare}
    for name, expected in bare.items():
        np.testing.assert_array_equal(dumped[f"albert.{name}"], expected)


@pytest.mark.parametrize(
    "class_name",
    ["AlbertForMaskedLM", "AlbertForQuestionAnswering", "AlbertForTokenClassification"],
)
def test_without_a_pooler_it_is_new_and_a_warning_says_so(tmp_path, class_name):
    save_transformers(tmp_path, class_name)
    with pytest.warns(UserWarning, match="has no weights for pooler,") as caught:
        backbone = AlbertBackbone.from_preset(tmp_path)
    assert len(caught) == 1
    dumped = TRANSFORMERS.dump(backbone)
    tensors = load_file(tmp_path / WEIGHTS)
    for name in dumped.keys() & tensors.keys():
        np.testing.assert_array_equal(dumped[name], tensors[name])
    assert np.std(dumped["albert.pooler.weight"]) == pytest.approx(0.02, rel=0.5)


@pytest.mark.parametrize(
    "class_name", ["AlbertForSequenceClassification", "AlbertForMultipleChoice"]
)
def test_heads_are_passed_over(tmp_path, class_name):
    save_transformers(tmp_path, class_name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AlbertBackbone.from_preset(tmp_path)


def test_half_a_pooler_is_missing_the_other_half(checkpoint):
    _change_tensors(checkpoint, lambda tensors: tensors.pop("albert.pooler.bias"))
    with pytest.raises(ValueError, match=r"missing: albert\.pooler\.bias"):
        AlbertBackbone.from_preset(checkpoint)


def test_the_old_buffer_is_passed_over(checkpoint):
    buffer = {"albert.embeddings.position_ids": np.arange(24)[None]}
    _change_tensors(checkpoint, lambda tensors: tensors.update(buffer))
    AlbertBackbone.from_preset(checkpoint)


def test_constructor_arguments_can_differ(checkpoint):
    backbone = AlbertBackbone.from_preset(
        checkpoint, dropout=0.3, dtype="mixed_bfloat16", name="mine", unroll=False
    )
    assert (backbone.dropout, backbone.name, backbone.unroll) == (0.3, "mine", False)
    assert backbone.compute_dtype == "bfloat16"


def test_random_weights_need_no_weights_file(checkpoint):
    (checkpoint / WEIGHTS).unlink()
    backbone = AlbertBackbone.from_preset(checkpoint, load_weights=False)
    assert not backbone.pretrained
    assert backbone.num_groups == 2


def test_the_config_decides_every_argument():
    config = {
        "model_type": "albert",
        "vocab_size": 50,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "embedding_size": 12,
        "hidden_size": 20,
        "intermediate_size": 30,
        "num_hidden_groups": 3,
        "inner_group_num": 2,
        "max_position_embeddings": 40,
        "type_vocab_size": 5,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0,
        "layer_norm_eps": 1e-7,
        "hidden_act": "relu",
    }
    assert backbone_arguments(config, "here") == {
        "vocabulary_size": 50,
        "num_layers": 6,
        "num_heads": 4,
        "embedding_dim": 12,
        "hidden_dim": 20,
        "intermediate_dim": 30,
        "num_groups": 3,
        "num_inner_repetitions": 2,
        "max_sequence_length": 40,
        "num_segments": 5,
        "dropout": 0.1,
        "attention_dropout": 0.0,
        "layer_norm_epsilon": 1e-7,
        "activation": "relu",
        "use_embedding_projection": True,
    }


def test_defaults_are_those_of_transformers():
    import transformers

    defaults = transformers.AlbertConfig().to_dict()
    assert backbone_arguments({}, "here") == backbone_arguments(defaults, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "quick_gelu"}, "`hidden_act`.*one of.*'quick_gelu'"),
        ({"hidden_act": ["gelu"]}, "`hidden_act`"),
        ({"vocab_size": "60"}, "`vocab_size`.*whole number.*'60'"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers`"),
        ({"num_hidden_groups": True}, "`num_hidden_groups`"),
        ({"hidden_dropout_prob": 1.5}, "`hidden_dropout_prob`.*1.5"),
        ({"layer_norm_eps": float("nan")}, "`layer_norm_eps`"),
        ({"position_embedding_type": "relative_key"}, "`position_embedding_type`"),
    ],
)
def test_a_config_of_another_kind_is_refused(checkpoint, changes, message):
    change_config(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


@pytest.mark.parametrize("found", ["AlbertModel", [["AlbertModel"]], {}])
def test_names_of_classes_of_another_kind_are_refused(checkpoint, found):
    change_config(checkpoint, architectures=found)
    with pytest.raises(ValueError, match=r"`architectures` in .* must be a list of na"):
        AlbertClassifier.from_preset(checkpoint, preprocessor=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_groups": 1}, "unexpected: .*albert_layer_groups.1"),
        ({"num_hidden_groups": 4}, "missing: .*albert_layer_groups.2"),
        ({"inner_group_num": 1}, "unexpected: .*albert_layers.1"),
        ({"vocab_size": 59}, r"word_embeddings.weight is \(60, 8\).*needs \(59, 8\)"),
        ({"type_vocab_size": 3}, r"token_type_embeddings.weight is \(2, 8\)"),
        ({"max_position_embeddings": 512}, r"position_embeddings.weight is \(24, 8\)"),
        ({"intermediate_size": 8}, r"ffn.weight is \(32, 16\).*needs \(8, 16\)"),
    ],
)
def test_a_config_that_contradicts_the_weights_is_refused(checkpoint, changes, message):
    change_config(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


NAME = "albert.embeddings.LayerNorm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(NAME), f"missing: {NAME}"),
        (lambda t: t.update({"albert.encoder.more": t[NAME]}), "unexpected: .*more"),
        (lambda t: t.update({"lm_head.bias": t[NAME]}), "unexpected: lm_head.bias"),
        (lambda t: t.update({NAME: t[NAME][:-1]}), f"wrong shape: {NAME}"),
        (lambda t: t.update({NAME: t[NAME] * np.nan}), f"not finite.*: {NAME}"),
    ],
)
def test_weights_that_do_not_fit_are_refused(checkpoint, change, message):
    _change_tensors(checkpoint, change)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


def test_a_truncated_file_is_refused(checkpoint):
    path = checkpoint / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model\.safetensors .*is damaged"):
        AlbertBackbone.from_preset(checkpoint)


def test_shards_are_read(original, checkpoint):
    (checkpoint / WEIGHTS).unlink()
    weight_map = {}
    for number in range(3):
        shard = f"model-{number}.safetensors"
        names = sorted(original[1])[number::3]
        save_file({name: original[1][name] for name in names}, checkpoint / shard)
        weight_map |= dict.fromkeys(names, shard)
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    backbone = AlbertBackbone.from_preset(checkpoint)
    dumped = TRANSFORMERS.dump(backbone)
    for name, expected in _backbone_part(original[1]).items():
        np.testing.assert_array_equal(dumped[name], expected)


def test_a_tensor_under_two_names_is_refused(checkpoint):
    def add_bare_name(tensors):
        tensors["pooler.bias"] = tensors["albert.pooler.bias"] + 1

    _change_tensors(checkpoint, add_bare_name)
    message = r"contain both `albert\.pooler\.bias` and `pooler\.bias`"
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
def test_numbers_of_another_kind_are_refused(checkpoint, dtype):
    def cast(tensors):
        tensors["albert.pooler.bias"] = tensors["albert.pooler.bias"].astype(dtype)

    _change_tensors(checkpoint, cast)
    message = rf"not floating point \({dtype}\): albert\.pooler\.bias"
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


def test_the_format_is_recognized_by_its_config(checkpoint):
    assert find_format(checkpoint).name == "Hugging Face transformers"
    change_config(checkpoint, model_type="gpt2")
    with pytest.raises(ValueError, match="'gpt2', which this package does not read"):
        find_format(checkpoint)
    (checkpoint / "config.json").unlink()
    assert find_format(checkpoint) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '"albert"', "[" * 10**5, "\xff"])
def test_a_damaged_config_is_refused(checkpoint, text):
    (checkpoint / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config\.json .* is damaged.*Copy"):
        AlbertBackbone.from_preset(checkpoint)


def test_the_vocabulary_is_read_as_it_is(checkpoint, tiny_proto):
    (checkpoint / "spiece.model").write_bytes(tiny_proto)
    assert find_format(checkpoint).read_vocabulary(checkpoint) == tiny_proto


def test_a_missing_vocabulary_is_refused(checkpoint):
    with pytest.raises(ValueError, match=r"has no `spiece\.model`"):
        find_format(checkpoint).read_vocabulary(checkpoint)


def test_an_equal_width_is_projected_all_the_same(tmp_path):
    save_transformers(tmp_path, embedding_dim=16)
    assert AlbertBackbone.from_preset(tmp_path).embedding.projection is not None


def test_a_backbone_without_a_projection_is_given_the_identity(tmp_path):
    backbone = AlbertBackbone(**(TINY | {"embedding_dim": 16}))
    backbone.export_to_transformers(tmp_path / "theirs")
    reloaded = AlbertBackbone.from_preset(tmp_path / "theirs")
    assert reloaded.embedding.projection is not None
    expected, found = to_numpy(backbone(INPUTS)), to_numpy(reloaded(INPUTS))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=2e-5)


def test_a_preset_of_our_own_keeps_what_was_converted(checkpoint, tmp_path):
    backbone = AlbertBackbone.from_preset(checkpoint)
    backbone.save_to_preset(tmp_path / "ours")
    reloaded = AlbertBackbone.from_preset(tmp_path / "ours")
    expected, found = to_numpy(backbone(INPUTS)), to_numpy(reloaded(INPUTS))
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
