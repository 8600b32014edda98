"""Outputs and gradients equal those of transformers and KerasHub."""

import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone
from keras_albert.checkpoints import TRANSFORMERS
from tests.compiled import gradients, to_numpy
from tests.foreign_models import (
    ragged_inputs,
    run_transformers,
    save_transformers,
    transformers_gradients,
    transformers_model,
)

SHAPES = {
    "tiny": {},
    "groups": {"num_groups": 2},
    "inner": {"num_inner_repetitions": 2},
    "wide_embedding": {"embedding_dim": 16},
}
ACTIVATIONS = {
    "erf": {"activation": "gelu", "num_layers": 2},
    "tanh": {"activation": "gelu_pytorch_tanh", "num_layers": 2},
    "relu": {"activation": "relu", "num_layers": 2},
}
CASES = SHAPES | ACTIVATIONS
INPUTS = ragged_inputs()


def _same(ours, theirs, tolerance=2e-5):
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert len(ours[name]) == len(theirs[name])
        for mine, other in zip(ours[name], theirs[name], strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance)


@pytest.fixture(scope="module", params=CASES)
def pretrained(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    model = save_transformers(directory, **CASES[request.param])
    return directory, run_transformers(model, INPUTS)


@pytest.mark.parametrize("unroll", [True, False])
def test_outputs_are_those_of_transformers(pretrained, unroll):
    directory, expected = pretrained
    backbone = AlbertBackbone.from_preset(directory, unroll=unroll)
    outer = {name: expected[name] for name in ("sequence_output", "pooled_output")}
    # `predict` compiles the model; only there is the loop a loop.
    _same(backbone.predict(INPUTS, verbose=0), outer)
    if unroll:
        _same(to_numpy(backbone.all_outputs(INPUTS)), expected)


_RNG = np.random.default_rng(5)
_WEIGHTS = {
    "sequence_output": _RNG.normal(size=(3, 12, 16)).astype("float32"),
    "pooled_output": _RNG.normal(size=(3, 16)).astype("float32"),
}


def _weigh(outputs):
    # A sum of all outputs, each with a different weight.
    return sum(
        ops.sum(ops.multiply(outputs[name], _WEIGHTS[name])) for name in _WEIGHTS
    )


def _weigh_in_torch(outputs):
    import torch

    return sum((outputs[k] * torch.from_numpy(_WEIGHTS[k])).sum() for k in _WEIGHTS)


@pytest.fixture(scope="module")
def expected_gradients(tmp_path_factory):
    directory = tmp_path_factory.mktemp("gradients")
    arguments = {"num_groups": 2}
    save_transformers(directory, **arguments)
    model = transformers_model(**arguments)
    return directory, transformers_gradients(model, INPUTS, _weigh_in_torch)


@pytest.mark.parametrize(
    "how",
    [{"unroll": True}, {"unroll": False}, {"unroll": False, "remat": True}],
    ids=str,
)
def test_gradients_are_those_of_transformers(expected_gradients, how):
    directory, expected = expected_gradients
    backbone = AlbertBackbone.from_preset(directory, **how)
    inputs = {name: ops.convert_to_tensor(INPUTS[name]) for name in INPUTS}
    _, ours = gradients(backbone, _weigh, inputs, training=True)
    by_path = dict(
        zip(
            (v.path for v in backbone.trainable_variables),
            map(np.array, ours),
            strict=True,
        )
    )
    # transformers never trains the embedding of `<pad>`; the reference does.
    by_path["embedding/token_embedding/embeddings"][0] = 0
    mappings = TRANSFORMERS.mappings(backbone)
    assert len(mappings) == len(by_path) == len(expected)
    largest = max(np.abs(gradient).max() for gradient in expected.values())
    for each in mappings:
        theirs = each.transform.to_ours(expected[each.name.removeprefix("albert.")])
        # The key's bias shifts all scores of a query equally, which softmax ignores:
        # its gradient is zero up to rounding, so the error is relative to the others.
        scale = max(np.abs(theirs).max(), 1e-3 * largest)
        error = np.abs(by_path[each.variable] - theirs).max() / scale
        assert error <= 1e-4, each.variable
