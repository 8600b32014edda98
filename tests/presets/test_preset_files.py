"""After a save, a directory has either the new files or its former ones."""

import json

import keras
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertTokenizer,
)
from tests.foreign_models import TINY

SHARDED = {"max_shard_size": 1e-5}  # in GB
NOTES = {"README.md": "mine", "notes/a.txt": "mine", "assets/logo.svg": "mine"}


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


@pytest.fixture(scope="module")
def tasks(tokenizer):
    """Two tasks of one architecture."""

    def make(seed):
        keras.utils.set_random_seed(seed)
        sizes = {"vocabulary_size": 130, "num_layers": 1}
        return AlbertMaskedLM(
            AlbertBackbone(**(TINY | sizes)),
            AlbertMaskedLMPreprocessor(tokenizer, max_sequence_length=24),
        )

    return [make(1), make(2)]


def read_files(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def add_notes(directory):
    for name, text in NOTES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def assert_holds(directory, model):
    copy = type(model).from_preset(directory)
    np.testing.assert_equal(copy.get_weights(), model.get_weights())


WAYS = {
    "whole": lambda task, to: task.save_to_preset(to),
    "sharded": lambda task, to: task.save_to_preset(to, **SHARDED),
    "backbone": lambda task, to: task.backbone.save_to_preset(to),
    "sharded backbone": lambda task, to: task.backbone.save_to_preset(to, **SHARDED),
    "preprocessor": lambda task, to: task.preprocessor.save_to_preset(to),
    "tokenizer": lambda task, to: task.preprocessor.tokenizer.save_to_preset(to),
}
# Separate parts can share a directory; a part of another is never replaced alone.
BESIDE = {
    *(("backbone", each) for each in ("preprocessor", "tokenizer")),
    *(("sharded backbone", each) for each in ("preprocessor", "tokenizer")),
}
BESIDE |= {(second, first) for first, second in BESIDE}
INSIDE = {
    *((outer, part) for outer in ("whole", "sharded") for part in list(WAYS)[2:]),
    ("preprocessor", "tokenizer"),
}


@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_over_any_save_there_is_what_is_saved(tasks, tmp_path, first, second):
    target = tmp_path / "preset"
    WAYS[first](tasks[0], target)
    add_notes(target)
    before = read_files(target)
    if (first, second) in INSIDE:
        with pytest.raises(ValueError, match=f"{target} has a (task|preprocessor)"):
            WAYS[second](tasks[1], target)
        assert read_files(target) == before
        return
    WAYS[second](tasks[1], target)
    WAYS[second](tasks[1], tmp_path / "fresh")
    expected = set(read_files(tmp_path / "fresh")) | set(NOTES)
    if (first, second) in BESIDE:
        expected |= set(before)
    assert set(read_files(target)) == expected
    assert {name: (target / name).read_text() for name in NOTES} == NOTES
    if second in ("whole", "sharded"):
        assert_holds(target, tasks[1])
    if "backbone" in second:
        assert_holds(target, tasks[1].backbone)


def test_a_save_that_dies_within_keras_changes_nothing(tasks, tmp_path, monkeypatch):
    def die(self, *arguments, **kwargs):
        raise KeyboardInterrupt

    tasks[0].save_to_preset(tmp_path / "preset")
    before = read_files(tmp_path)
    for cls, method in (
        (AlbertBackbone, "save_weights"),
        (AlbertMaskedLM, "save_task_weights"),
        (AlbertTokenizer, "save_assets"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(cls, method, die)
            with pytest.raises(KeyboardInterrupt):
                tasks[1].save_to_preset(tmp_path / "preset", **SHARDED)
        assert read_files(tmp_path) == before


def test_a_backbone_and_a_tokenizer_make_a_preset(tasks, tokenizer, tmp_path):
    tasks[0].backbone.save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    assert_holds(tmp_path, tasks[0].backbone)
    assert AlbertTokenizer.from_preset(tmp_path).proto == tokenizer.proto
    task = AlbertMaskedLM.from_preset(tmp_path)
    assert task.fill_mask("the [MASK]")


FOREIGN = {
    "google": {"albert_config.json": "{}", "model.ckpt-best.index": ""},
    "google below": {"assets/albert_config.json": "{}"},
    "transformers": {"config.json": '{"model_type": "albert"}', "spiece.model": ""},
    "transformers' tokenizer": {"tokenizer.json": '{"version": "1.0"}'},
    "KerasHub": {"config.json": '{"registered_name": "keras_hub>BertBackbone"}'},
    "an application": {"config.json": '{"port": 8000}'},
    "damaged": {"config.json": "{"},
    "weights alone": {"model.weights.h5": "mine"},
    "a shard": {"model_00000.weights.h5": "mine"},
    "a head": {"task.weights.h5": "mine"},
    "a folder": {"model.weights.h5/notes.txt": "mine"},
    "a folder of tokenizers": {"assets/tokenizer/notes.txt": "mine"},
}


@pytest.mark.parametrize("way", ["whole", "sharded"])
@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_what_no_preset_has_written_is_not_replaced(tasks, tmp_path, files, way):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = read_files(tmp_path)
    with pytest.raises(ValueError, match="into another directory"):
        WAYS[way](tasks[0], tmp_path)
    assert read_files(tmp_path) == before


def test_a_folder_in_the_place_of_a_file_is_refused(tasks, tmp_path):
    tasks[0].save_to_preset(tmp_path)
    (tmp_path / "task.weights.h5").unlink()
    (tmp_path / "task.weights.h5").mkdir()
    before = read_files(tmp_path)
    with pytest.raises(ValueError, match=r"task\.weights\.h5 is in the way of a file"):
        tasks[1].save_to_preset(tmp_path)
    assert read_files(tmp_path) == before


def test_a_preset_and_a_checkpoint_in_one_directory_are_refused(tasks, tmp_path):
    tasks[0].save_to_preset(tmp_path)
    (tmp_path / "albert_config.json").write_text("{}")
    with pytest.raises(ValueError, match="both a preset of keras_albert and"):
        AlbertMaskedLM.from_preset(tmp_path)


def test_a_preset_replaced_while_it_is_read_is_refused(tasks, tmp_path, monkeypatch):
    tasks[0].save_to_preset(tmp_path / "preset")
    load = AlbertBackbone.load_weights

    def load_slowly(self, *arguments, **kwargs):
        tasks[1].save_to_preset(tmp_path / "preset")
        load(self, *arguments, **kwargs)

    monkeypatch.setattr(AlbertBackbone, "load_weights", load_slowly)
    with pytest.raises(ValueError, match="replaced while it was being loaded"):
        AlbertMaskedLM.from_preset(tmp_path / "preset")


class TestExports:
    @pytest.mark.parametrize("over", ["whole", "backbone", "tokenizer"])
    def test_not_into_a_preset(self, tasks, tmp_path, over):
        WAYS[over](tasks[0], tmp_path)
        before = read_files(tmp_path)
        with pytest.raises(FileExistsError, match="files of another checkpoint"):
            tasks[1].export_to_transformers(tmp_path)
        assert read_files(tmp_path) == before

    def test_over_an_earlier_one(self, tasks, tmp_path):
        tasks[0].export_to_transformers(tmp_path)
        add_notes(tmp_path)
        tasks[1].export_to_transformers(tmp_path)
        assert (tmp_path / "README.md").read_text() == "mine"
        copy = AlbertMaskedLM.from_preset(tmp_path)
        text = "the [MASK]"
        scores = [model.fill_mask(text)[0]["score"] for model in (copy, tasks[1])]
        assert scores[0] == pytest.approx(scores[1], rel=1e-4)

    def test_not_over_shards(self, tasks, tmp_path):
        tasks[0].export_to_transformers(tmp_path)
        index = {"weight_map": {}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(FileExistsError, match=r"safetensors\.index\.json"):
            tasks[1].export_to_transformers(tmp_path)
