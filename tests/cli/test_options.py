"""Help answers at once, and says what the package does."""

import os
import subprocess
import sys
from dataclasses import fields, is_dataclass

import pytest

from keras_albert.backbone import MODEL_SIZES
from keras_albert.cli import commands
from keras_albert.cli.arguments import describe
from keras_albert.cli.commands import COMMANDS
from keras_albert.cli.run_command import build_parser, describe_versions
from keras_albert.presets.checkpoint import formats
from keras_albert.pretraining import PretrainingConfig
from keras_albert.pretraining.prepare.pipeline import NUM_LINES, PART_SIZE
from keras_albert.serve.requests import Limits
from keras_albert.tasks.recipes import RECIPE_NAMES
from keras_albert.tasks.table import WRITERS
from keras_albert.tools.tasks import TASKS

_SHOW = """
import sys
from keras_albert.cli import main
try:
    main()
finally:
    loaded = {name.split(".")[0] for name in sys.modules}
    print(*loaded & {"jax", "keras", "numpy", "rich", "tensorflow", "torch"})
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
    for name, row in COMMANDS.items():
        assert any(line.startswith(f"  {name:<10}") for line in shown)
        assert f"{row.group}:" in shown
    # It has the most options, and those of another module.
    *shown, loaded = show("pretrain", "--help")
    assert loaded == ""
    assert any("--ema-momentum" in line for line in shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_explained(command):
    cls = COMMANDS[command].options
    sections = describe(cls).sections
    explained = [name for names in sections.values() for name in names]
    assert sorted(explained) == sorted(each.name for each in fields(cls))
    assert all(words for names in sections.values() for words in names.values())
    # The example is a valid command.
    parser = build_parser([command])[1][command]
    example = parser.format_help().partition("\nexample:\n")[2]
    words = example.replace("\\\n", "").replace('"', "").split()
    assert words[:2] == ["keras-albert", command]
    parser.parse_args(words[2:])


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
    assert set(commands.RECIPES) == set(RECIPE_NAMES)
    assert set(commands.TASKS) == set(TASKS)
    assert set(commands.EXPORTS) == set(WRITERS)
    assert set(commands.CHECKPOINTS) <= set(formats())
    for size in MODEL_SIZES:
        assert PretrainingConfig(data="data", output="run", size=size).size == size
    _, parsers = build_parser()
    assert parsers["prepare"].get_default("part_size") == PART_SIZE
    assert parsers["prepare"].get_default("vocabulary_lines") == NUM_LINES
    serve = vars(parsers["serve"].parse_args(["preset"]))
    limits = {f"max_{name}": value for name, value in vars(Limits()).items()}
    assert {name: serve.get(name) for name in limits} == limits


def test_each_setting_of_pretraining_has_an_option():
    assert is_dataclass(PretrainingConfig)
    parser = build_parser(["pretrain"])[1]["pretrain"]
    printed = " ".join(parser.format_help().split())
    for setting in fields(PretrainingConfig):
        option = f"--{setting.name.replace('_', '-')}"
        assert (option in printed) == (setting.name != "stages")
    assert "`" not in printed.partition("settings:")[2]
    for words in (
        "--data DATA string. The directory that keras-albert prepare wrote; one in a",
        "--steps STEPS int. Updates of the weights. Defaults to 125_000.",
        "--backbone NAME=VALUE [NAME=VALUE ...]",
    ):
        assert words in printed
    given = vars(parser.parse_args(["--steps", "5", "--no-unroll", "--masked", "1"]))
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
    assert last.startswith("keras-albert verify: directory: there is no directory mis")
