import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import AlbertBackbone
from keras_albert.checkpoints import TRANSFORMERS
from keras_albert.checkpoints.config import backbone_arguments
from keras_albert.presets.checkpoint import OWN_FORMAT, open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import TINY, change_config, ragged_inputs, save_transformers
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

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


@pytest.mark.parametrize("prefix", ["albert.", ""])
def test_a_round_trip_changes_nothing_with_any_prefix(original, checkpoint, prefix):
    expected = _backbone_part(original[1])
    if not prefix:
        bare = {name.removeprefix("albert."): x for name, x in expected.items()}
        save_file(bare, checkpoint / WEIGHTS)
    backbone = AlbertBackbone.from_preset(checkpoint)
    dumped = TRANSFORMERS.dump(backbone)
    assert dumped.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(dumped[name], expected[name])
    assert backbone.pretrained


def test_without_a_pooler_it_is_new_and_a_warning_says_so(tmp_path):
    save_transformers(tmp_path, "AlbertForMaskedLM")
    with pytest.warns(UserWarning, match="has no weights for pooler,") as caught:
        backbone = AlbertBackbone.from_preset(tmp_path)
    assert len(caught) == 1
    dumped = TRANSFORMERS.dump(backbone)
    tensors = load_file(tmp_path / WEIGHTS)
    for name in dumped.keys() & tensors.keys():
        np.testing.assert_array_equal(dumped[name], tensors[name])
    assert np.std(dumped["albert.pooler.weight"]) == pytest.approx(0.02, rel=0.5)


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


# Their name, ours, and a value.
ARGUMENTS = [
    ("vocab_size", "vocabulary_size", 50),
    ("num_hidden_layers", "num_layers", 6),
    ("num_attention_heads", "num_heads", 4),
    ("embedding_size", "embedding_dim", 12),
    ("hidden_size", "hidden_dim", 20),
    ("intermediate_size", "intermediate_dim", 30),
    ("num_hidden_groups", "num_groups", 3),
    ("inner_group_num", "num_inner_repetitions", 2),
    ("max_position_embeddings", "max_sequence_length", 40),
    ("type_vocab_size", "num_segments", 5),
    ("hidden_dropout_prob", "dropout", 0.1),
    ("attention_probs_dropout_prob", "attention_dropout", 0),
    ("layer_norm_eps", "layer_norm_epsilon", 1e-7),
    ("hidden_act", "activation", "relu"),
]


def test_the_config_decides_every_argument():
    config = {theirs: value for theirs, _, value in ARGUMENTS}
    found = backbone_arguments(config | {"model_type": "albert"}, "here")
    ours = {name: value for _, name, value in ARGUMENTS}
    assert found == ours | {"use_embedding_projection": True}


def test_defaults_are_those_of_transformers():
    import transformers

    defaults = transformers.AlbertConfig().to_dict()
    assert backbone_arguments({}, "here") == backbone_arguments(defaults, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "quick_gelu"}, "`hidden_act`.*one of.*'quick_gelu'"),
        ({"hidden_act": ["gelu"]}, "`hidden_act`"),
        ({"vocab_size": "60"}, "`vocabulary_size`.*whole number.*'60'"),
        ({"num_hidden_layers": 0}, "`num_layers`"),
        ({"num_hidden_groups": True}, "`num_groups`"),
        ({"hidden_dropout_prob": 1.5}, "`dropout`.*1.5"),
        ({"layer_norm_eps": float("nan")}, "`layer_norm_epsilon`"),
        # Of another kind than the weights.
        ({"num_hidden_groups": 1}, "unexpected: .*albert_layer_groups.1"),
        ({"num_hidden_groups": 4}, "missing: .*albert_layer_groups.2"),
        ({"inner_group_num": 1}, "unexpected: .*albert_layers.1"),
        ({"vocab_size": 59}, r"word_embeddings.weight is \(60, 8\) instead of \(59"),
        ({"type_vocab_size": 3}, r"token_type_embeddings.weight is \(2, 8\)"),
        ({"max_position_embeddings": 512}, r"position_embeddings.weight is \(24, 8\)"),
        ({"intermediate_size": 8}, r"ffn.weight is \(32, 16\) instead of \(8"),
    ],
)
def test_a_config_of_another_kind_is_refused(checkpoint, changes, message):
    change_config(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


BIAS = "albert.pooler.bias"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(BIAS), r"missing: albert\.pooler\.bias"),
        (lambda t: t.update({"lm_head.bias": t[BIAS]}), "unexpected: lm_head.bias"),
        (
            lambda t: t.update({BIAS: t[BIAS].astype("int64")}),
            r"not floating point \(int64\): albert\.pooler\.bias",
        ),
        (
            lambda t: t.update({BIAS: t[BIAS] * np.nan}),
            r"not finite \(NaN or infinity\): albert\.pooler\.bias",
        ),
        (
            lambda t: t.update({"pooler.bias": t[BIAS] + 1}),
            r"contain `albert\.pooler\.bias` twice",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(checkpoint, change, message):
    _change_tensors(checkpoint, change)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


def test_the_format_is_recognized_by_its_config(checkpoint):
    assert open_checkpoint(checkpoint).format.name == "Hugging Face transformers"
    change_config(checkpoint, model_type="gpt2")
    with pytest.raises(ValueError, match="'gpt2', which has a different"):
        open_checkpoint(checkpoint)
    (checkpoint / "config.json").unlink()
    assert open_checkpoint(checkpoint).format.key == OWN_FORMAT


@pytest.mark.parametrize("text", ["", "[]", "{", '"albert"', "[" * 10**5, "\xff"])
def test_a_damaged_config_is_refused(checkpoint, text):
    (checkpoint / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config\.json .* is damaged.*Copy"):
        AlbertBackbone.from_preset(checkpoint)


def test_the_vocabulary_is_read_as_it_is(checkpoint, tiny_proto):
    (checkpoint / "spiece.model").write_bytes(tiny_proto)
    assert open_checkpoint(checkpoint).read_vocabulary() == tiny_proto


def test_a_backbone_without_a_projection_is_given_the_identity(tmp_path):
    backbone = AlbertBackbone(**(TINY | {"embedding_dim": 16}))
    backbone.export_to_transformers(tmp_path / "theirs")
    reloaded = AlbertBackbone.from_preset(tmp_path / "theirs")
    assert reloaded.embedding.projection is not None
    expected, found = to_numpy(backbone(INPUTS)), to_numpy(reloaded(INPUTS))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=2e-5)
