"""The bare loop is compared only if it computes the same, and profiles are read."""

import argparse
import importlib

import pytest

PROGRAM = """
%product (a: f32[2,2]) -> f32[2,2] {
  ROOT %dot.1 = f32[2,2]{1,0} dot(%a, %a), lhs_contracting_dims={1}
}
ENTRY %main (b: f32[2,2]) -> f32[2,2] {
  %fusion.2 = f32[2,2]{1,0} fusion(%b), kind=kCustom, calls=%product
  ROOT %copy.3 = f32[2,2]{0,1} copy(%fusion.2), \
metadata={op_name="jit(train_step)/transpose(jvp(albert_backbone))/encoder/query/dot"}
}
"""


def load(name):
    return importlib.import_module(name)


def steps(*losses):
    left = list(losses)
    return lambda: left.pop(0)


def test_losses_must_be_equal_and_change():
    check = load("bare_loop").check_losses
    assert "within 5.0e-05" in check("float32", steps(9.0, 8.0), steps(9.0, 8.00005))
    for other in ((9.0, 8.1), (9.0, float("nan"))):
        with pytest.raises(ValueError, match="do not compute the same"):
            check("float32", steps(9.0, 8.0), steps(*other))
    with pytest.raises(ValueError, match="do not compute the same"):
        check("float32", steps(9.0, 9.0), steps(9.0, 9.0))


def test_the_loop_trains_as_pretraining_does():
    arguments = argparse.Namespace(
        **{"size": "tiny", "precision": "float32", "clock": "cpu", "repeats": 1},
        **{"rows": 2, "length": 16, "layers": 2, "width": 64},
    )
    found = load("bare_loop").compare(arguments, vocabulary_size=50)
    assert found.amounts == {"keras_albert": 32, "bare loop, PyTorch": 32}
    # The losses of both steps, or the comparison raises.
    assert "from the same weights" in found.notes[0]


def test_a_program_of_xla_is_read():
    found = load("xla_profile").read_program(PROGRAM)
    assert found["fusion.2"].kind == "product of matrices"
    assert found["copy.3"].kind == "copy"
    assert found["copy.3"].origin == "encoder/query/dot, backward"


def test_a_loop_does_not_count_what_it_runs():
    seconds_of = load("xla_profile").seconds_of
    events = [
        ("while", 0, 1e9),
        ("dot", 0, 25e7),
        ("dot", 5e8, 25e7),
        ("add", 2e9, 1e9),
    ]
    assert seconds_of(events) == {"while": 0.5, "dot": 0.5, "add": 1.0}
