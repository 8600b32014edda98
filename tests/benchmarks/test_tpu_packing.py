"""The TPU compiler's estimates are summed, and compiled batches are those of `fit`.

No TPU compiler is needed: the sum is that of a short program.
"""

import importlib

import numpy as np
import pytest

# As XLA writes it: a sum of which the estimate is that of the whole; a loop whose trips
# are known; one whose condition says how often it runs; a branch.
PROGRAM = """\
HloModule jit_step, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%inside (a: f32[8]) -> f32[8] {
  ROOT %add.1 = f32[8]{0} add(%a, %a), backend_config={"estimated_cycles":"7000"}
}

%body (a: (s32[], f32[8])) -> (s32[], f32[8]) {
  %gather_fusion.1 = f32[8]{0} fusion(%a), kind=kCustom, calls=%inside
  ROOT %fusion.2 = (s32[], f32[8]{0}) fusion(%a, %gather_fusion.1), calls=%inside, \
backend_config={"window_config":{"estimated_cycles":"100","iteration_bounds":["1"]}}
}

%below_six (a: (s32[], f32[8])) -> pred[] {
  %constant.1 = s32[]{:T(128)} constant(6)
  %get-tuple-element.1 = s32[]{:T(128)} get-tuple-element(%a), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%get-tuple-element.1, %constant.1), direction=LT
}

%unlike (a: (s32[], f32[8])) -> pred[] {
  ROOT %and.1 = pred[] and(%a, %a)
}

%short (a: f32[8]) -> f32[8] {
  ROOT %copy.1 = f32[8]{0} copy(%a), backend_config={"estimated_cycles":"10"}
}

%long (a: f32[8]) -> f32[8] {
  ROOT %copy.2 = f32[8]{0} copy(%a), backend_config={"estimated_cycles":"20"}
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %while.1 = (s32[], f32[8]{0}) while(%p), condition=%unlike, body=%body, \
backend_config={"known_trip_count":{"n":"3"}}
  %while.2 = (s32[], f32[8]{0}) while(%while.1), condition=%below_six, body=%body
  %conditional.1 = f32[8]{0} conditional(%p, %p, %p), \
branch_computations={%short, %long}
  %call.1 = f32[8]{0} call(%p), to_apply=%short
  ROOT %scatter_custom_fusion = f32[8]{0} fusion(%p), kind=kCustom, calls=%inside
}
"""


@pytest.fixture
def tpu_cycles():
    return importlib.import_module("tpu_cycles")


@pytest.fixture
def tpu_packing():
    return importlib.import_module("tpu_packing")


def test_cycles_of_a_program(tpu_cycles):
    found = tpu_cycles.count_cycles(PROGRAM)
    loops = (3 + 6) * 100
    assert found == tpu_cycles.Cycles(loops + 20 + 10, loops, moves=3 + 6 + 1)


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
