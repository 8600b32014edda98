"""The command line as a whole."""

import signal
from importlib import import_module

import pytest

from keras_albert.cli import convert
from keras_albert.cli.commands import COMMANDS as ALL
from keras_albert.cli.run_command import run_command
from keras_albert.utils.arguments import argument_error

# The package has a function of the same name.
module = import_module("keras_albert.cli.run_command")

COMMANDS = {
    "convert": ["a", "c", "--to", "google"],
    "export": ["a", "c"],
    "finetune": [*("classification", "--train", "b", "--dev", "b", "--output", "c")],
    "predict": ["a", "b"],
    "prepare": ["a", "--output", "b", "--vocabulary", "c"],
    "pretrain": [],
    "push": ["a", "hf://me/model"],
    "verify": ["a"],
}


@pytest.fixture(autouse=True)
def _paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").touch()


WRONG_NUMBERS = {
    "export --sequence-length": ["0", "-1", "1.5", "a", "1000000000"],
    "export --version": ["-1", "1.0", "", str(2**63)],
    "export --max-length": ["0", "-5"],
    "export --top-k": ["0", "-1", "nan"],
    "finetune --batch-size": [str(10**30)],
    "finetune --epochs": ["-1", "0", "two", str(10**10)],
    "finetune --learning-rate": ["nan", "-0.1"],
    "finetune --limit": ["-1"],
    "finetune --max-length": ["0", str(10**9)],
    "finetune --seed": ["-1", str(2**32)],
    "predict --batch-size": ["0", "-1", "1e3", str(10**30)],
    "predict --num-layers": ["0", "1001", "1000000000"],
    "predict --threshold": ["0", "-0.1", "nan"],
    "prepare --part-size": ["0", "-1", str(10**30)],
    "prepare --vocabulary-lines": ["0", "-1"],
    "prepare --sequence-length": ["7", "-512"],
    "prepare --held-out": ["1", "-0.1", "nan", "inf", "a"],
    "prepare --short-seq-prob": ["1", "-0.1", "nan"],
    "prepare --seed": ["-1", "4294967296"],
    "prepare --workers": ["0", "-1", "1001"],
}


@pytest.mark.parametrize("option", WRONG_NUMBERS)
def test_a_number_out_of_range_is_refused_by_its_option(option, capsys):
    command, name = option.split()
    for value in WRONG_NUMBERS[option]:
        with pytest.raises(SystemExit, match="2"):
            run_command([command, *COMMANDS[command], f"{name}={value}"])
        error = capsys.readouterr().err
        assert f"argument {name}: must be a" in error
        assert f"Received: {value}" in error


@pytest.mark.parametrize("handle", ["me/model", "hf://model", "hf://me/model@v1"])
def test_a_handle_to_push_to_names_a_user_and_a_model(handle, capsys):
    with pytest.raises(SystemExit, match="2"):
        run_command(["push", "a", handle])
    error = capsys.readouterr().err
    assert f"must be hf://user/model. Received: {handle}" in error
    assert ("--revision" in error.splitlines()[-1]) == ("@" in handle)


FINETUNE = "finetune masked-lm --train b --dev b --output done"
REFUSED = {
    "finetune regression --train b --dev no --output c": "--dev: there is no file no",
    "predict no.onnx b": "model: there is no file no.onnx",
    "predict a no": "file: there is no file no",
    "predict a a": "file: there is no file a",
    "push b hf://me/model": "directory: there is no directory b",
    "pretrain --config no": "--config: there is no file no",
    "verify b": "directory: there is no directory b",
    "predict a b --output gs://b/c": "--output: gs://b/c is not a path on",
    "predict a b --output b": "b already exists. Choose another output, or remove it.",
    "export a b": "b already exists. Choose another output, or pass --overwrite.",
    "predict a b --output a": "a already exists",
    "convert a a --to google": "a already exists",
    FINETUNE: "done/preset already exists: the run is finished.",
    "pretrain --output done": "done/preset already exists: the run is finished.",
    f"{FINETUNE} --exits": "A model for masked-lm has no exits",
    f"{FINETUNE} --recipe rte": "A recipe needs pretrained weights: pass --preset",
    f"{FINETUNE} --lora 4": "LoRA needs pretrained weights: pass --preset",
    f"{FINETUNE} --method linear": "A linear head, for classification",
    FINETUNE.replace("masked-lm", "regression")
    + " --preset p --method contrastive": "Contrastive training needs texts with",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_is_said_before_the_imports(line, tmp_path, monkeypatch, capsys):
    (tmp_path / "done" / "preset").mkdir(parents=True)
    monkeypatch.setattr(module, "resolve_name", None)
    assert run_command(line.split()) == 1
    expected = f"keras-albert {line.split()[0]}: {REFUSED[line]}"
    assert capsys.readouterr().err.startswith(expected)


@pytest.mark.parametrize(
    "line", ["export a a", "export a b --overwrite", "predict a b"]
)
def test_an_output_that_may_exist_is_no_error(line, monkeypatch):
    places = []
    monkeypatch.setattr(module, "resolve_name", places.append)
    # No function was found that could run.
    assert run_command(line.split()) == 1
    assert places == [f"keras_albert.cli.{ALL[line.split()[0]].place}"]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("pytorch", "jax or torch. Received: pytorch. Did you mean torch?"),
        ("theano", "KERAS_BACKEND must be tensorflow, jax or torch. Received: theano."),
        ("jax", "The backend jax is not installed. Install it, or set KERAS_BACKEND=t"),
    ],
)
def test_a_backend_that_cannot_be_is_named(backend, words, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setattr(module, "resolve_name", None)
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "jax" else 1)
    assert run_command(["verify", "a"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_a_traceback_when_asked(command, monkeypatch, capsys):
    name, _, function = ALL[command].place.partition(":")
    command_module = import_module(f"keras_albert.cli.{name}")

    def fail(options):
        assert isinstance(options, ALL[command].options)
        raise argument_error("task", "`task` must be a name.")

    monkeypatch.setattr(command_module, function, fail)
    assert run_command([command, *COMMANDS[command], "--debug"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.splitlines()[-1].startswith(f"keras-albert {command}: ")
    assert run_command([command, *COMMANDS[command]]) == 1
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    has_task = command in ("convert", "export", "predict")
    assert (": --task: `task` must be a name." in shown) == has_task
    assert (": task: " in shown) == (command == "finetune")


@pytest.mark.usefixtures("_hears_ctrl_c")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_is_a_line_and_a_status(number, status, monkeypatch, capsys):
    monkeypatch.setattr(convert, "verify", lambda _: signal.raise_signal(number))
    assert run_command(["verify", "a"]) == status
    assert capsys.readouterr().err == "keras-albert verify: stopped\n"
