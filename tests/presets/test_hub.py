"""`hf://` against a stand-in for the hub."""

import re
import shutil

import numpy as np
import pytest
from huggingface_hub import constants

from keras_albert import AlbertBackbone, AlbertTextEmbedder, AlbertTokenizer
from tests.compiled import to_numpy
from tests.foreign_models import TINY, save_transformers
from tests.presets.hub import REVISIONS, commit_of, hub_of, use_hub

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two revisions of a BERT, and an ALBERT whose weights are in a pickle."""
    import torch

    folder = tmp_path_factory.mktemp("hub")
    for number, name in enumerate(REVISIONS):
        save_transformers(
            folder / name, "BertModel", num_layers=1, vocabulary_size=8, seed=number
        )
        (folder / name / "vocab.txt").write_text("\n".join(PIECES))
        (folder / name / "onnx").mkdir()
        (folder / name / "onnx/model.onnx").write_bytes(b"large")
    model = save_transformers(folder / "pickled", "AlbertModel", num_layers=1)
    (folder / "pickled/model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pickled/pytorch_model.bin")
    # Never downloaded where there are other weights.
    (folder / "pickled/tf_model.h5").write_bytes(b"large")
    (folder / "former").mkdir()
    for name in ("config.json", "tf_model.h5"):
        shutil.copy(folder / "pickled" / name, folder / "former")
    return folder


@pytest.fixture
def hub(files, tmp_path, monkeypatch):
    """The requests to a hub with an empty cache."""
    requests = []
    repositories = {
        "me/bert": {name: files / name for name in REVISIONS},
        "me/pickled": {"main": files / "pickled"},
        "me/former": {"main": files / "former"},
        "me/private": (401, "RepoNotFound"),
        "me/gated": (403, "GatedRepo"),
    }
    with hub_of(repositories, requests) as address:
        use_hub(monkeypatch, address, tmp_path)
        yield requests


def _table(backbone):
    return to_numpy(backbone.token_embedding.embeddings)


def test_a_model_of_the_hub_is_recognized_by_its_files(hub, files):
    embedder = AlbertTextEmbedder.from_preset("hf://me/bert")
    assert embedder.embed(["a b", "c"]).shape == (2, TINY["hidden_dim"])
    assert AlbertTokenizer.from_preset("hf://me/bert").vocabulary_size() == 8
    assert not [path for _, path in hub if path.endswith(".onnx")]
    # All files are in the cache now.
    hub.clear()
    again = AlbertBackbone.from_preset("hf://me/bert")
    assert hub == []
    expected = AlbertBackbone.from_preset(files / "main")
    np.testing.assert_array_equal(_table(again), _table(expected))


def test_a_revision_is_a_part_of_the_handle(hub, files):
    main, other = (
        AlbertBackbone.from_preset(f"hf://me/bert{end}")
        for end in ("", f"@{commit_of(files / 'v1')}")
    )
    assert not np.array_equal(_table(main), _table(other))
    named = AlbertBackbone.from_preset("hf://me/bert@v1")
    np.testing.assert_array_equal(_table(named), _table(other))


def test_other_forms_of_weights_are_downloaded_if_there_is_no_better_one(hub, files):
    AlbertBackbone.from_preset("hf://me/pickled")
    fetched = [path for method, path in hub if method == "GET"]
    commit = f"me/pickled/resolve/{commit_of(files / 'pickled')}"
    assert f"{commit}/pytorch_model.bin" in fetched
    assert f"{commit}/tf_model.h5" not in fetched
    with pytest.raises(ValueError, match=r"tf_model\.h5 \(5 bytes\) is damaged"):
        AlbertBackbone.from_preset("hf://me/former")


def test_a_broken_connection_continues_in_the_middle(monkeypatch, tmp_path, files):
    requests = []
    repositories = {"me/bert": {"main": files / "main"}}
    with hub_of(repositories, requests, cut=["model.safetensors"]) as address:
        use_hub(monkeypatch, address, tmp_path)
        # Whole chunks are kept.
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
        loaded = AlbertBackbone.from_preset("hf://me/bert")
    half = (files / "main/model.safetensors").stat().st_size // 2
    assert ("RANGE", str(half // 1000 * 1000)) in requests
    expected = AlbertBackbone.from_preset(files / "main")
    np.testing.assert_array_equal(_table(loaded), _table(expected))


def test_an_interrupted_download_keeps_complete_files(hub, files, tmp_path):
    AlbertBackbone.from_preset("hf://me/bert")
    (weights,) = tmp_path.rglob("model.safetensors")
    weights.resolve().unlink()
    weights.unlink()
    hub.clear()
    AlbertBackbone.from_preset("hf://me/bert")
    assert [path for method, path in hub if method == "GET" and "resolve" in path] == [
        f"me/bert/resolve/{commit_of(files / 'main')}/model.safetensors"
    ]


@pytest.mark.parametrize(
    ("handle", "message"),
    [
        ("hf://me/nothing", r"no such model, or it is private.*HF_TOKEN"),
        ("hf://me/private", r"no such model, or it is private.*HF_TOKEN"),
        ("hf://me/gated", r"Accept the terms.*HF_TOKEN"),
        ("hf://me/bert@v7", r"no such revision.*after the @"),
    ],
)
def test_what_the_hub_refuses_is_told_with_the_remedy(hub, handle, message):
    with pytest.raises(ConnectionError, match=re.escape(repr(handle))) as caught:
        AlbertBackbone.from_preset(handle)
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(hub, files, monkeypatch, tmp_path):
    shutil.copytree(files / "main", tmp_path / "incomplete")
    (tmp_path / "incomplete/model.safetensors").unlink()
    with hub_of({"me/bert": {"main": tmp_path / "incomplete"}}, []) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(ValueError, match=r"contains neither `model\.safetensors`"):
            AlbertBackbone.from_preset("hf://me/bert")
