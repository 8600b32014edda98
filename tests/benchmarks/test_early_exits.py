"""Rules of early exits are chosen, and runtimes agree before they are compared."""

import importlib
import json
import sys

import numpy as np
import pytest

from tests.exports.early_exits import TEXTS, make_early, make_rules


@pytest.fixture
def early_exits():
    return importlib.import_module("early_exits")


def test_other_answers_are_not_compared(early_exits, capsys):
    right = np.ones((300, 2)), np.full(300, 3)
    outputs, depths = np.ones((300, 2)), np.full(300, 3)
    # Rounding let some texts leave elsewhere, with another answer.
    outputs[:3], depths[:3] = 5, 4
    early_exits.check("ONNX", (outputs, depths), right)
    assert "297 of 300 depths equal, outputs within 0e+00" in capsys.readouterr().out
    depths[3] = 4
    with pytest.raises(ValueError, match=r"ONNX computes something else .* 296 of 300"):
        early_exits.check("ONNX", (outputs, depths), right)
    outputs[-1] = np.nan
    with pytest.raises(ValueError, match="outputs within nan"):
        early_exits.check("ONNX", (outputs, right[1]), right)


@pytest.fixture
def run(early_exits, tmp_path, tiny_proto, monkeypatch):
    classifier = make_early("scores", tiny_proto)
    classifier.save_to_preset(tmp_path / "preset")
    dev, found = tmp_path / "dev.tsv", tmp_path / "found.json"
    texts = [" ".join(text.split()) for text in TEXTS if text.isascii()]
    lines = [f"{text}\t{number}" for number, text in enumerate(texts)]
    dev.write_text("\n".join(["text\tscore", *lines]))

    def run(*words):
        command = [str(tmp_path / "preset"), str(dev), "--json", str(found), *words]
        monkeypatch.setattr(sys, "argv", ["early_exits.py", *command])
        early_exits.main()
        return json.loads(found.read_text())["rows"]

    run.classifier, run.texts = classifier, texts
    return run


def test_a_runtime_is_measured(run, capsys):
    (_, rule) = make_rules(run.classifier, "early")
    words = ",".join(f"{name}={value!r}" for name, value in rule.items())
    rules = ["--rules", words, "num_layers=3", "--rounds", "2", "--singles", "3"]
    rows = run(*rules, "--runtimes", "ONNX", "--batch-size", "8")
    assert [row["batch"] for row in rows] == [8] * 3 + [1] * 3
    _, depths = run.classifier.predict(run.texts, **rule, return_depths=True, verbose=0)
    assert 3 <= depths.mean() < 4
    assert [row["depth"] for row in rows[:3]] == pytest.approx([4, depths.mean(), 3])
    assert rows[0]["ratios"] == [1, 1]
    assert all(row["ms"] > 0 and len(row["ratios"]) == 2 for row in rows)
    whole, *_ = (row["quality"] for row in rows)
    depth_table = run("--fixed")
    assert depth_table[-1] == {"depth": 4, "exits": pytest.approx(whole), "alone": []}
    assert depth_table[2]["exits"] == pytest.approx(rows[2]["quality"])
    printed = capsys.readouterr().out
    assert "ONNX, 1, num_layers=3: 3 of 3 depths equal" in printed
    assert "| runtime | batch | rule | Spearman | depth |" in printed
