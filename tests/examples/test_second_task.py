"""The experiment runs from the command line, on very little data."""

import json

from tests.examples.test_examples import run
from tests.pretraining.prepared_texts import write_prepared

SETTINGS = """
size = "tiny"
steps = 10
batch_size = 8
log_every = 10
evaluate_every = 10
unroll = true
[backbone]
num_layers = 1
num_heads = 1
embedding_dim = 8
hidden_dim = 8
intermediate_dim = 16
"""


def test_the_experiment_ends_in_a_table_and_a_plot(tmp_path, tiny_proto):
    data = write_prepared(tmp_path / "data", tiny_proto, train=96, held_out=80)
    (tmp_path / "settings.toml").write_text(SETTINGS)
    output = tmp_path / "runs"
    arguments = [str(data), "--config", str(tmp_path / "settings.toml")]
    arguments += ["--output", str(output), "--probe", "96", "--test", "80"]
    printed = run("second_task.py", *arguments)
    results = json.loads((output / "second_task.json").read_text())
    assert list(results) == ["sentence_order", "next_sentence", "none"]
    for name, row in results.items():
        report = json.loads((output / name / "report.json").read_text())
        assert report["settings"]["second_task"] == name
        assert set(row) == {"sentence_order", "next_sentence"}
        # Shares of 80 examples.
        assert all(round(value * 80, 6) in range(81) for value in row.values())
        assert f"{row['sentence_order']:.1%}" in printed
    assert (output / "second_task.png").read_bytes().startswith(b"\x89PNG")
