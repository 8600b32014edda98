"""The batches that are compiled for a TPU are packed as in `fit`; no TPU is needed."""

import importlib

import numpy as np
import pytest


@pytest.fixture
def tpu_packing():
    return importlib.import_module("tpu_packing")


@pytest.fixture
def classifier(tiny_proto):
    peers = importlib.import_module("peer_models")
    sizes = {"num_heads": 2, "embedding_dim": 8, "hidden_dim": 16}
    return peers.build_classifier("tiny", tiny_proto, intermediate_dim=32, **sizes)


@pytest.fixture
def texts(tpu_packing, classifier):
    texts = ["a fine film", "dull", "a fine film with a fine end and a dull start"] * 16
    data = texts, [0, 1, 1] * 16
    task = importlib.import_module("settings").TextTask("some", data, data, 2)
    return tpu_packing.encode(classifier, task, 16)


def test_texts_are_packed(tpu_packing, texts):
    lengths = texts.examples.lengths
    longest = texts.longest()
    assert longest % 8 == 0
    assert longest - 8 < lengths.max() <= longest
    assert texts.cut(longest) == 0
    assert texts.cut(int(lengths.max()) - 1) == 16
    for width in (None, 2 * longest):
        x, y = tpu_packing.packed_batch(texts, width)
        assert width in (None, x["row_tokens"].shape[1])
        # Each token of the 16 texts has a place of its own.
        tokens = x["row_tokens"][x["row_tokens"] >= 0]
        np.testing.assert_array_equal(
            np.sort(tokens), np.flatnonzero(x["padding_mask"])
        )
        assert len(y) == 16
        assert len(x["row_tokens"]) < 16
