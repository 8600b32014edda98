"""The README is short, its links lead somewhere, and its picture is of the code."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import keras_albert
from keras_albert import AlbertBackbone, AlbertMaskedLM
from keras_albert.backbone import architecture
from keras_albert.presets import BUILTIN_PRESETS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SIZES = {
    **{"vocabulary_size": 50, "num_layers": 3, "num_heads": 2},
    **{"embedding_dim": 6, "hidden_dim": 8, "intermediate_dim": 20},
}


@pytest.fixture
def picture(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import parameters_picture

    return parameters_picture


def num_parameters(model):
    return sum(int(np.prod(weight.shape)) for weight in model.weights)


def test_its_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert len(links) > 10
    missing = [
        link
        for link in links
        if not link.startswith("https://") and not (ROOT / link).is_file()
    ]
    assert not missing


def test_its_figures_stand_on_the_pages_with_their_commands():
    """They are copied from tables there, which commands printed."""
    pages = (ROOT / "docs").glob("speed_*.md")
    speed = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    table = README.partition("| | KerasHub | transformers (PyTorch) |")[2]
    rows = [row for row in table.partition("\n\n")[0].splitlines()[2:] if row]
    figures = [x for row in rows for x in re.findall(r"\b\d+\.?\d*\b(?! x|\d)", row)]
    figures = [figure for figure in figures if figure not in ("2", "8", "128")]
    assert len(figures) > 10
    for figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]\d)", speed), figure
    commands = re.findall(r"(KERAS_BACKEND=\w+\s+python\s[^`]*)`", README)
    assert len(commands) == 2
    flat = " ".join(speed.split())
    for command in commands:
        # The options of a command there; those of the page's first lines are added.
        words = command.split()
        assert words[2] in flat
        assert all(word in flat for word in words), command


@pytest.mark.parametrize("groups", [1, 3])
def test_parameters_are_counted_right(picture, groups):
    shared = AlbertBackbone(**SIZES, num_groups=groups)
    counted = picture.count_parameters(**SIZES)
    block = picture.count_parameters(**SIZES | {"embedding_dim": 8}, is_bert=True)
    block -= picture.count_parameters(
        **SIZES | {"embedding_dim": 8, "num_layers": 2}, is_bert=True
    )
    assert num_parameters(shared) == counted + (groups - 1) * block


def test_the_picture_is_drawn_from_the_code(picture, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["parameters_picture.py", "--check"])
    picture.main()
    # "At BERT-base size it has one ninth of the parameters".
    assert re.search(r"\| base \| .* \| 9\.\d \|", capsys.readouterr().out)


def test_the_table_of_presets_has_the_sizes_of_the_code(picture):
    page = (ROOT / "docs/choosing_a_model.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d.*) \|$", page, re.MULTILINE)
    assert {BUILTIN_PRESETS[name].size for name, _ in rows} == {
        preset.size for preset in BUILTIN_PRESETS.values()
    }
    for name, cells in rows:
        parameters, megabytes, layers, *_ = cells.replace(",", "").split(" | ")
        preset = BUILTIN_PRESETS[name]
        if preset.handle is None:
            backbone = AlbertBackbone.from_preset(name)
            sizes = backbone.get_config()
            assert int(parameters) == num_parameters(backbone)
        else:
            sizes = architecture(preset.size)
            assert megabytes == f"{4 * int(parameters) / 1e6:.0f}"
        # The picture is of models whose layers are all alike.
        if sizes.get("num_groups", 1) == 1:
            assert int(parameters) == picture.count_parameters(**sizes)
        assert int(layers) == sizes["num_layers"]


def test_each_format_names_the_tests_that_prove_it():
    page = (ROOT / "docs/checkpoints.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| format | write | tests |\n")
    _, *rows = table.partition("\n\n")[0].splitlines()
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, row
        assert all((ROOT / name).is_file() for name in named), row
    tested = set(re.findall(r"tests/checkpoints/(?:test_)?(\w+)", "".join(rows)))
    folder = ROOT / "keras_albert/checkpoints"
    defining = [p for p in folder.rglob("*.py") if "Format):" in p.read_text("utf-8")]
    formats = {
        path.relative_to(folder).parts[0].removesuffix(".py") for path in defining
    }
    formats -= {"weight_map"}
    assert len(formats) == 4
    assert formats <= tested


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_the_card_of_a_model_counts_its_parameters(size):
    name = f"albert_{size}_en_uncased"
    card = ROOT / f"keras_albert/presets/{name}/README.md"
    page = ROOT / "docs/choosing_a_model.md"
    masked_lm = AlbertMaskedLM.from_preset(name)
    for path in (card, page):
        text = path.read_text(encoding="utf-8")
        for model in (masked_lm, masked_lm.backbone):
            assert f"{num_parameters(model):,}" in text


def read_project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_versions_of_python_are_those_that_are_tested():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    tested = sorted(re.findall(r'"(3\.\d+)"', workflow))
    last = "Programming Language :: Python :: 3."
    classifiers = read_project()["project"]["classifiers"]
    assert tested == [f"3.{x.removeprefix(last)}" for x in classifiers if last in x]
    named = f"Python {', '.join(tested[:-1])} or {tested[-1]}"
    for page in ("README.md", "docs/index.md", "docs/installation.md"):
        assert named in (ROOT / page).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    project = read_project()
    version = project["project"]["version"]
    assert keras_albert.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {version} - " in changes
