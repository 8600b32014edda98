"""Small random ALBERTs of other libraries, and inputs for them."""

import json
import re

import numpy as np

from tests.compiled import to_numpy
from tests.random_weights import fill_weights, random_weight

# Ours, and what transformers calls it.
_TRANSFORMERS_KEYS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
    "max_sequence_length": "max_position_embeddings",
    "activation": "hidden_act",
}
TINY = {
    "vocabulary_size": 60,
    "num_layers": 4,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 24,
}


def transformers_model(class_name="AlbertModel", seed=1, **arguments):
    import torch
    import transformers

    kind = re.match("(Albert|Bert|DistilBert|Electra)(?=Model|For)", class_name)[0]
    keys = _TRANSFORMERS_KEYS
    if kind == "DistilBert":
        keys = keys | {"intermediate_dim": "hidden_dim", "hidden_dim": "dim"}
    config = getattr(transformers, f"{kind}Config")(
        **{keys.get(k, k): v for k, v in (TINY | arguments).items()},
        attn_implementation="eager",
    )
    model = getattr(transformers, class_name)(config).eval()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = random_weight(name, tuple(parameter.shape), rng)
            parameter.copy_(torch.from_numpy(value))
    return model


def save_transformers(directory, class_name="AlbertModel", **arguments):
    model = transformers_model(class_name, **arguments)
    model.save_pretrained(directory)
    return model


def change_json(path, *keys, **changes):
    """Change entries of an object in a JSON file, which `keys` lead to."""
    content = part = json.loads(path.read_text())
    for key in keys:
        part = part[key]
    part |= changes
    path.write_text(json.dumps(content))


def change_config(directory, **changes):
    """Change entries of a checkpoint's config."""
    change_json(directory / "config.json", **changes)


def keras_hub_model(seed=2, **arguments):
    import keras_hub

    return fill_weights(keras_hub.models.AlbertBackbone(**(TINY | arguments)), seed)


def ragged_inputs(vocabulary_size=60, length=12):
    """A full row, a pair with segments, and a row that is mostly padding."""
    rng = np.random.default_rng(3)
    token_ids = rng.integers(5, vocabulary_size, (3, length))
    padding_mask = (np.arange(length) < np.array([[length], [9], [3]])).astype("int32")
    segment_ids = np.zeros((3, length), "int32")
    segment_ids[1, 5:9] = 1
    return {
        "token_ids": (token_ids * padding_mask).astype("int32"),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
    }


def run_transformers(model, inputs):
    """All outputs of an `AlbertModel`, under our names."""
    import torch

    with torch.no_grad():
        outputs = model(**_as_theirs(inputs), **_EVERYTHING)
    # transformers 5 shows the state after each inner block, we after each layer.
    states = outputs.hidden_states[:: model.config.inner_group_num]
    return {
        "sequence_output": outputs.last_hidden_state.numpy(),
        "pooled_output": outputs.pooler_output.numpy(),
        "hidden_states": [state.numpy() for state in states],
        "attention_scores": [scores.numpy() for scores in outputs.attentions],
    }


def transformers_logits(model, inputs):
    """What a model with one head gives."""
    import torch

    with torch.no_grad():
        return model(**_as_theirs(inputs)).logits.numpy()


def transformers_gradients(model, inputs, weigh):
    """The gradients of `weigh(outputs)`, by parameter."""
    model.zero_grad()
    outputs = model(**_as_theirs(inputs))
    weigh(
        {
            "sequence_output": outputs.last_hidden_state,
            "pooled_output": outputs.pooler_output,
        }
    ).backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


_EVERYTHING = {"output_hidden_states": True, "output_attentions": True}


def _as_theirs(inputs):
    import torch

    return {
        "input_ids": torch.from_numpy(inputs["token_ids"]).long(),
        "token_type_ids": torch.from_numpy(inputs["segment_ids"]).long(),
        "attention_mask": torch.from_numpy(inputs["padding_mask"]).long(),
    }


def assert_computes_as(task, directory, peer="transformers"):
    """A task has the outputs of another library's; return the inputs and outputs."""
    from keras_albert.checkpoints.convert import peer_outputs, probe_batch

    inputs = probe_batch(task)
    found = task(inputs)
    found = to_numpy(found if isinstance(found, dict) else {"output": found})
    (expected,) = peer_outputs(peer, task, directory, inputs).values()
    assert expected.keys() == found.keys() or hasattr(task, "pooling")
    for output, value in expected.items():
        is_open = found[output] > -1e4
        assert is_open.any(axis=-1).all()
        np.testing.assert_allclose(
            found[output][is_open], value[is_open], rtol=0, atol=2e-5
        )
    return inputs, expected


def assert_same_on_both_sides(task, directory, target):
    """A checkpoint of transformers is read and written back without a difference."""
    from safetensors.numpy import load_file

    from keras_albert.checkpoints.convert import peer_outputs

    inputs, expected = assert_computes_as(task, directory)
    task.export_to_transformers(target)
    # It loads without missing or unexpected keys, and computes the same.
    (again,) = peer_outputs("transformers", task, target, inputs).values()
    for output, value in expected.items():
        np.testing.assert_allclose(again[output], value, rtol=0, atol=1e-6)
    written, original = (
        load_file(place / "model.safetensors") for place in (target, directory)
    )
    np.testing.assert_equal(written, original)
