"""The counted operations of a training step equal PyTorch's count."""

import importlib

import pytest

from keras_albert.layers import torch_inference

SIZES = {
    "num_layers": 4,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 64,
    "num_groups": 2,
    "num_inner_repetitions": 2,
    # Explicit attention, because PyTorch counts its products.
    "attention_dropout": 0.1,
}


@pytest.mark.parametrize("length", [16, 64])
def test_operations_are_those_that_pytorch_counts(length, monkeypatch):
    from torch.utils.flop_counter import FlopCounterMode

    # It does not count oneDNN's products.
    monkeypatch.setattr(torch_inference, "has_slow_blas", lambda: False)
    names = ("equal_shapes", "throughput", "peer_models")
    equal_shapes, throughput, peers = map(importlib.import_module, names)
    model = equal_shapes.build_task("AlbertMaskedLM", "tiny", 50, **SIZES)
    peers.compile_alike(model)
    ids, y = equal_shapes.inputs_of("AlbertMaskedLM", 50, 3, length)
    model.train_on_batch(ids, y)
    with FlopCounterMode(display=False) as counter:
        model.train_on_batch(ids, y)
    counted = 3 * throughput.step_operations(model.backbone.get_config(), length)
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.01)
