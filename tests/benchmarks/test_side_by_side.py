"""The harness of the benchmarks, with fake clocks."""

import argparse
import gc
import importlib
import json
import sys

import keras
import pytest


def load(name):
    return importlib.import_module(name)


class Clock:
    """A clock that each side advances by given seconds."""

    def __init__(self):
        self.now, self.order = 100.0, []

    def __call__(self):
        return self.now

    def side(self, name, *seconds, **kwargs):
        harness, left = load("side_by_side"), list(seconds)

        def run():
            self.order.append(name)
            self.now += left.pop(0)

        return harness.Side(name, run, **kwargs)


def measure(clock, sides, repeats, **kwargs):
    return load("side_by_side").measure("t", sides, repeats, clock=clock, **kwargs)


def test_sides_take_turns_and_begin_in_turn():
    clock = Clock()
    sides = [clock.side(name, *[1] * 4) for name in "abc"]
    measure(clock, sides, 3)
    assert "".join(clock.order) == "abc" + "abc" + "bca" + "cab"


def test_ratios_are_of_a_round_and_by_amount():
    clock = Clock()
    ours = clock.side("keras_albert", 9, 1, 2, 4, amount=10)
    theirs = clock.side("slow", 9, 3, 2, 4, amount=5)
    found = measure(clock, [ours, theirs], 3, work="rows")
    # The first run of each is the warm-up.
    assert found.costs == {"keras_albert": [1, 2, 4], "slow": [3, 2, 4]}
    assert found.ratios("slow") == [6, 2, 2]
    assert found.ratios("keras_albert") == [1, 1, 1]
    assert load("side_by_side").spread(found.ratios("slow")) == (2, 2, 6)


def test_a_report_is_a_table_a_file_and_a_plot(tmp_path, capsys):
    reports, clock = load("reports"), Clock()
    sides = [
        clock.side("keras_albert", 1, 2, 2),
        clock.side("KerasHub, length 512", 1, 8, 6),
        clock.side("transformers", 1, 5, 5),
    ]
    found = measure(clock, sides, 2, notes=["outputs within [0]"], work="rows")
    arguments = argparse.Namespace(size="tiny", output=tmp_path / "new", data=None)
    path = reports.report("name", [found], arguments, "torch")
    assert path == tmp_path / "new" / "name_torch.json"
    written = json.loads(path.read_text())
    assert written["settings"] == {
        "size": "tiny",
        "output": str(tmp_path / "new"),
        "data": None,
    }
    assert written["versions"]["keras"] == keras.__version__
    assert written["machine"]["cores"] >= 1
    (comparison,) = written["comparisons"]
    assert comparison["notes"] == ["outputs within [0]"]
    assert comparison["sides"]["KerasHub, length 512"] == {
        "costs": [8, 6],
        "amount": 1,
        "ratio": [3, 3.5, 4],
    }
    printed = capsys.readouterr().out
    assert "the better peer: transformers, 2.50 (2.50 to 2.50)" in printed
    assert "outputs within [0]" in printed
    plot = tmp_path / "new" / "name_torch_t.png"
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_what_differs_is_not_compared():
    peers = load("peer_models")
    with pytest.raises(ValueError, match=r"KerasHub computes something else.*1\.0e-03"):
        peers.check_agreement({"ours": peers.np.zeros(2), "KerasHub": [0, 1e-3]})
    with pytest.raises(ValueError, match="something else"):
        peers.check_agreement({"ours": peers.np.zeros(1), "KerasHub": [float("nan")]})


@pytest.fixture
def small(monkeypatch):
    """Make the smallest size so small that a benchmark takes seconds."""
    from keras_albert.backbone import MODEL_SIZES

    names = ("embedding_dim", "hidden_dim", "intermediate_dim")
    sizes = {"num_layers": 1, "num_heads": 1} | dict.fromkeys(names, 8)
    monkeypatch.setitem(MODEL_SIZES, "tiny", sizes)


# KerasHub does not close the vocabulary file.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_comparison_runs_from_end_to_end(tmp_path, small, monkeypatch, capsys):
    """Run three libraries with the same weights on texts of this repository."""
    words = ["prediction.py", "--size", "tiny", "--examples", "6", "--repeats", "1"]
    words += ["--no-torch-compile", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    load("prediction").main()
    gc.collect()
    written = json.loads((tmp_path / "prediction_torch.json").read_text())
    (comparison,) = written["comparisons"]
    assert {name.split(",")[0] for name in comparison["sides"]} == {
        "keras_albert",
        "KerasHub",
        "transformers",
    }
    assert all(side["costs"][0] > 0 for side in comparison["sides"].values())
    assert "same weights, outputs within" in comparison["notes"][0]
    assert "returns equal ids for 6 of 6 rows" in comparison["notes"][-1]
    assert "the better peer" in capsys.readouterr().out


def test_curves_over_length_and_depth(tmp_path, small, monkeypatch):
    words = ["long_inputs.py", "--size", "tiny", "--repeats", "1"]
    words += ["--lengths", "8", "16", "--depths", "1", "2"]
    words += ["--no-torch-compile", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    load("long_inputs").main()
    written = json.loads((tmp_path / "long_inputs_torch.json").read_text())
    assert [comparison["title"] for comparison in written["comparisons"]] == [
        f"Classifier: {what} of {size}"
        for size in ("2 x 8", "1 x 16", "4 x 8, 1 layers", "4 x 8, 2 layers")
        for what in ("prediction", "training step")
    ]
    assert (tmp_path / "long_inputs_torch_curves.png").stat().st_size > 0
