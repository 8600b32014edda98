"""`keras-albert push` to a stand-in for the hub, and loading from there."""

import re

import numpy as np
import pytest
from huggingface_hub import ModelCard, constants

from keras_albert import AlbertClassifier, AlbertTextEmbedder
from keras_albert.cli.run_command import run_command
from tests.exports.served_models import make_task
from tests.presets.hub import hub_of, use_hub

# Of huggingface_hub's own call, when it sends a file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

CARD = """---
library_name: keras
license: mit
---
# Moods

A model of the authors.

```python
model = AlbertClassifier.from_preset("path/to/this/directory")
```
"""


@pytest.fixture(scope="module")
def presets(tiny_proto, tmp_path_factory):
    """A classifier with a card, a text embedder without one."""
    folder = tmp_path_factory.mktemp("presets")
    classifier = make_task("Classifier", tiny_proto, labels=("bad", "good"))
    classifier.save_to_preset(folder / "moods")
    (folder / "moods/README.md").write_text(CARD)
    (folder / "moods/.secret").write_text("a password")
    make_task("TextEmbedder", tiny_proto).save_to_preset(folder / "vectors")
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The models of a hub."""
    models = {"me/refused": (403, "no rights"), "me/unknown": (401, "bad token")}
    with hub_of(models, [], tmp_path / "uploads") as address:
        use_hub(monkeypatch, address, tmp_path / "cache")
        yield models


def push(*arguments):
    return run_command(["push", *map(str, arguments)])


def test_what_was_pushed_is_loaded_and_computes_the_same(hub, presets, capsys):
    assert push(presets / "moods", "hf://me/moods") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == 'AlbertClassifier.from_preset("hf://me/moods")'
    folder = hub["me/moods"]["main"]
    assert not (folder / ".secret").exists()
    here, there = (
        AlbertClassifier.from_preset(each).predict(["lamps go", "bread"], verbose=0)
        for each in (presets / "moods", "hf://me/moods")
    )
    np.testing.assert_array_equal(there, here)


def test_the_card_is_the_page_of_the_model(hub, presets):
    assert push(presets / "moods", "hf://me/moods", "--revision", "v1") == 0
    text = (hub["me/moods"]["v1"] / "README.md").read_text()
    assert "A model of the authors." in text
    assert 'from_preset("hf://me/moods@v1")' in text
    metadata = ModelCard(text).data
    assert (metadata.library_name, metadata.license) == ("keras-albert", "mit")
    # The file of the author is unchanged.
    assert (presets / "moods/README.md").read_text() == CARD


def test_a_new_card_says_how_to_use_the_model(hub, presets, capsys):
    handle = "hf://me/vectors"
    assert push(presets / "vectors", handle) == 1
    assert "has no model card, README.md" in capsys.readouterr().err
    assert push(presets / "vectors", handle, "--license", "mit") == 0
    path = hub["me/vectors"]["main"] / "README.md"
    card = ModelCard.load(path)
    assert card.data.license == "mit"
    assert card.data.pipeline_tag == "sentence-similarity"
    assert {"albert", "keras"} <= set(card.data.tags)
    assert f'model = AlbertTextEmbedder.from_preset("{handle}")' in card.text
    assert 'model.embed(["a text"])' in card.text
    # Another one replaces no card on the hub.
    path.write_text("mine")
    assert push(presets / "vectors", handle, "--license", "mit") == 0
    assert path.read_text() == "mine"


@pytest.mark.parametrize("to", ["transformers", "sentence-transformers"])
def test_files_of_another_library(hub, presets, to):
    arguments = ("--to", to, "--license", "mit")
    assert push(presets / "vectors", "hf://me/vectors", *arguments) == 0
    folder = hub["me/vectors"]["main"]
    assert ModelCard.load(folder / "README.md").data.library_name == to
    assert (folder / "modules.json").is_file() == (to == "sentence-transformers")
    here, there = (
        AlbertTextEmbedder.from_preset(each).backbone.get_weights()
        for each in (presets / "vectors", "hf://me/vectors")
    )
    np.testing.assert_equal(here, there)


def test_checkpoints_are_not_mixed(hub, presets, capsys):
    handle, options = "hf://me/vectors", ("--license", "mit")
    assert push(presets / "vectors", handle, *options) == 0
    before = sorted(hub["me/vectors"]["main"].iterdir())
    assert push(presets / "vectors", handle, *options, "--to", "transformers") == 1
    shown = capsys.readouterr().err
    assert "files of another checkpoint: " in shown
    assert "model.weights.h5" in shown
    assert sorted(hub["me/vectors"]["main"].iterdir()) == before
    assert push(presets / "vectors", handle, *options, "--private") == 1
    assert "is public, and `private` applies to new" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("refused", r"403 \(no rights\)\. Your token may not write there\. Run `hf a"),
        ("unknown", r"401 \(bad token\)\. It does not accept your token\. Run `hf a"),
    ],
)
def test_what_the_hub_refuses_is_told_with_the_remedy(
    hub, presets, model, words, capsys
):
    assert push(presets / "moods", f"hf://me/{model}") == 1
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert re.search(words, shown), shown


def test_without_a_token_nothing_is_asked(hub, presets, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "a"))
    assert push(presets / "moods", "hf://me/moods") == 1
    assert "you are not logged in. Run `hf auth login`" in capsys.readouterr().err
    assert "me/moods" not in hub


def test_only_a_model_with_a_card_is_pushed(hub, presets, tmp_path, capsys):
    assert push(tmp_path, "hf://me/a") == 1
    assert "so it is not a preset" in capsys.readouterr().err
    assert push(presets / "moods", "hf://me/a", "--language", "en") == 1
    assert "is the model card: change its metadata there" in capsys.readouterr().err
    assert "me/a" not in hub
