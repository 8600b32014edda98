"""Help answers at once, and says what the package does."""

import os
import subprocess
import sys
from dataclasses import fields

import pytest

from keras_albert.pretraining import PretrainingConfig
from keras_albert.pretraining.prepare.pipeline import NUM_LINES, PART_SIZE
from keras_albert.serve.requests import Limits
from keras_albert.tasks.recipes import RECIPE_NAMES
from keras_albert_cli import options
from keras_albert_cli.run_command import describe_versions

_SHOW = """
import sys
from keras_albert_cli import main
try:
    main()
finally:
    loaded = {name.split(".")[0] for name in sys.modules}
    print(*loaded & {"jax", "keras", "keras_albert", "numpy", "tensorflow", "torch"})
"""


def show(*arguments):
    """The lines that the program prints, and the last one: what it has imported."""
    finished = subprocess.run(
        [sys.executable, "-c", _SHOW, *arguments],
        env=os.environ | {"KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stderr == ""
    return finished.stdout.splitlines()


def test_help_lists_every_command_and_imports_nothing():
    *shown, loaded = show("--help")
    assert loaded == ""
    for name, command in options.COMMANDS.items():
        assert f"  {name:<10}{command.summary}" in shown
        assert f"{command.group}:" in shown


@pytest.mark.parametrize("command", options.COMMANDS)
def test_the_help_of_a_command_has_an_example_and_imports_nothing(command):
    *shown, loaded = show(command, "--help")
    assert loaded == ""
    example = "\n".join(shown).partition("\nexample:\n")[2]
    assert example.startswith(f"  keras-albert {command} ")
    # The example is a valid command.
    _, parsers = options.build_parser()
    words = example.replace("\\\n", "").replace('"', "").split()
    parsers[command].parse_args(words[2:])


def test_version_names_what_a_report_of_a_bug_needs():
    *shown, loaded = show("--version")
    assert loaded == ""
    assert shown[0].startswith("keras-albert 0.")
    assert shown[1].startswith(f"Python {sys.version.split()[0]}, ")
    assert shown[2] == "Keras backend: torch"
    names = [line.split()[0] for line in shown[3:]]
    assert {"keras", "keras-hub", "numpy", "sentencepiece"} <= set(names)


def test_the_backend_of_the_version_is_that_of_keras(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND")
    assert "Keras backend: tensorflow\n" in describe_versions()
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    assert "Keras backend: jax\n" in describe_versions()


def test_constants_are_those_of_the_package():
    assert set(options.RECIPES) == set(RECIPE_NAMES)
    prepare = options.build_parser()[1]["prepare"]
    assert prepare.get_default("part_size") == PART_SIZE
    assert prepare.get_default("vocabulary_lines") == NUM_LINES
    serve = vars(options.build_parser()[1]["serve"].parse_args(["preset"]))
    limits = {f"max_{name}": value for name, value in vars(Limits()).items()}
    assert {name: serve.get(name) for name in limits} == limits


def test_each_setting_has_an_option_that_is_explained():
    _, parsers = options.build_parser()
    pretrain = parsers["pretrain"]
    known = {action.dest: action for action in pretrain._actions}
    assert {each.name for each in fields(PretrainingConfig)} - set(known) == {"stages"}
    printed = " ".join(pretrain.format_help().split())
    assert "--no-remat" in printed
    for option in (
        "--data DATA the directory that keras-albert prepare wrote; one in a remote",
        "--steps STEPS updates of the weights; by default 125,000 --batch",
        "not of biases and LayerNorms; by default 0.01 --beta-2",
        "; by default 1000 --checkpoint-every",
        "that [MASK] replaces; by default 0.8",
        "0.25 / hidden_dim and at most 1e-3 for AdamW and Muon, 0.00176 * sqrt(--batch",
        "--distribution DISTRIBUTION the devices: none, one; data_parallel, all,",
        "the size or the preset; by default none --steps",
    ):
        assert option in printed
    for setting in fields(PretrainingConfig):
        if setting.name != "stages":
            words = known[setting.name].help
            assert not set('`"') & set(words)
            assert len(words) > 10
            assert words[-1] != "."
    given = vars(pretrain.parse_args(["--steps", "5", "--no-unroll", "--masked", "1"]))
    assert (given["steps"], given["unroll"], given["masked"]) == (5, False, 1.0)
    # A settings file has the others.
    assert "seed" not in given


def test_the_package_runs_as_a_program():
    finished = subprocess.run(
        [sys.executable, "-m", "keras_albert", "verify", "missing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("keras-albert verify: `directory`: there is no directory")
