import json

import pytest

from keras_albert.cli.run_command import run_command as main
from keras_albert.pretraining import PretrainingData
from keras_albert.pretraining.prepare.parts import PartPreparation
from tests.pretraining.texts import make_documents, plain

pytest.importorskip("apache_beam")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(plain(make_documents(40)), encoding="utf-8")
    return path


def test_text_becomes_data_in_one_command(text, tmp_path, capfd):
    output = tmp_path / "prepared"
    command = ["prepare", str(text), "--output", str(output), "--sequence-length=64"]
    command += ["--vocabulary-size=70", "--held-out=0.2"]
    assert main(command) == 0
    shown = capfd.readouterr().out
    assert "documents" in shown
    assert "40" in shown
    data = PretrainingData(output)
    assert data.tokenizer.vocabulary_size() == 70
    assert data.sequence_length == 64
    # Two processes and several parts yield the same examples.
    assert main([*command, "--workers=2", "--part-size=4000"]) == 0
    assert "The vocabulary of the earlier run is kept." in capfd.readouterr().out
    again = PretrainingData(output)
    assert len(again.metadata.shards["train"]) > 1
    assert (len(again), again.num_tokens) == (len(data), data.num_tokens)


def test_beams_own_options(text, tmp_path, tiny_proto):
    (tmp_path / "v.spm").write_bytes(tiny_proto)
    command = ["prepare", str(text), "--output", str(tmp_path / "out")]
    command += ["--vocabulary", str(tmp_path / "v.spm"), "--held-out=0.2"]
    assert main([*command, "--beam=--runner=FnApiRunner"]) == 0
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert metadata["sequence_length"] == 512


@pytest.mark.parametrize("workers", [1, 2])
def test_a_workers_error_is_one_line(workers, text, tmp_path, tiny_proto, capfd):
    (tmp_path / "v.spm").write_bytes(tiny_proto)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "parts").write_text("in the way")
    command = ["prepare", str(text), "--output", str(tmp_path / "out")]
    command += ["--vocabulary", str(tmp_path / "v.spm"), f"--workers={workers}"]
    capfd.readouterr()
    assert main(command) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("keras-albert prepare: ")
    assert "File exists" in error
    assert "while running" not in error
    assert "Traceback" not in error


def test_ctrl_c_within_a_worker_stops(text, tmp_path, tiny_proto, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt(15)

    monkeypatch.setattr(PartPreparation, "_split_of", stop)
    (tmp_path / "v.spm").write_bytes(tiny_proto)
    command = ["prepare", str(text), "--output", str(tmp_path / "out")]
    assert main([*command, "--vocabulary", str(tmp_path / "v.spm")]) == 143
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1] == "keras-albert prepare: stopped"
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


@pytest.mark.parametrize("flags", [[], ["--quiet"]])
def test_a_terminal_shows_the_progress(
    flags, text, tmp_path, tiny_proto, monkeypatch, capfd
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    (tmp_path / "v.spm").write_bytes(tiny_proto)
    command = ["prepare", str(text), "--output", str(tmp_path / "out"), *flags]
    command += ["--vocabulary", str(tmp_path / "v.spm"), "--held-out=0.2"]
    capfd.readouterr()
    assert main(command) == 0
    shown = capfd.readouterr().err
    size = f"{text.stat().st_size / 1000:.1f}"
    assert (f"{size}/{size} kB" in shown) == (not flags)
    assert not flags or not shown
