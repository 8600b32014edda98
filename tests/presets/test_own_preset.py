"""Missing, damaged or contradictory files of a preset, and their messages."""

import json
import re
from itertools import product

import h5py
import keras_hub
import ml_dtypes
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertQuestionAnswerer,
    AlbertQuestionAnswererPreprocessor,
    AlbertTextEmbedder,
    AlbertTokenClassifier,
    AlbertTokenizer,
)
from keras_albert.presets.checkpoint import check_backbone_size
from keras_albert.text import train_vocabulary
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from tests.foreign_models import TINY, change_config, change_json

VOCABULARY = "assets/tokenizer/vocabulary.spm"
CONFIGS = ("config.json", "task.json", "preprocessor.json", "tokenizer.json")


@pytest.fixture(scope="module")
def task(tiny_proto):
    return AlbertMaskedLM(
        AlbertBackbone(**(TINY | {"vocabulary_size": 130, "num_layers": 2})),
        AlbertMaskedLMPreprocessor(AlbertTokenizer(tiny_proto), max_sequence_length=24),
    )


@pytest.fixture
def preset(task, tmp_path):
    task.save_to_preset(tmp_path)
    return tmp_path


def change(path, **changes):
    """Change values of a config, in each place where they occur."""

    def changed(entry):
        if not isinstance(entry, dict):
            return entry
        entry = {key: changed(value) for key, value in entry.items()}
        return entry | {key: changes[key] for key in changes if key in entry}

    path.write_text(json.dumps(changed(json.loads(path.read_text()))))


def change_all(preset, **changes):
    for name in CONFIGS:
        change(preset / name, **changes)


@pytest.mark.parametrize("name", ["keras_hub>GemmaBackbone", "os>system"])
def test_a_foreign_class_is_refused(preset, name):
    change_config(preset, registered_name=name)
    with pytest.raises(ValueError, match="which is not an ALBERT model"):
        AlbertBackbone.from_preset(preset)


def test_the_metadata_names_the_tasks_of_keras_hub(preset):
    metadata = json.loads((preset / "metadata.json").read_text())
    assert {"MaskedLM", "TextClassifier"} <= set(metadata["tasks"])
    for name in metadata["tasks"]:
        assert issubclass(getattr(keras_hub.models, name), keras_hub.models.Task)


class TestMissing:
    def test_a_config(self, preset):
        (preset / "config.json").unlink()
        with pytest.raises(ValueError, match=r"contains no `config\.json`"):
            AlbertBackbone.from_preset(preset)

    @pytest.mark.parametrize(
        "name", ["task.weights.h5", "model.weights.h5", VOCABULARY, *CONFIGS[1:]]
    )
    def test_it_is_named(self, preset, name):
        (preset / name).unlink()
        with pytest.raises(ValueError, match=rf"{name}.* again"):
            AlbertMaskedLM.from_preset(preset)

    def test_a_shard(self, task, tmp_path):
        task.save_to_preset(tmp_path, max_shard_size=1e-5)
        (tmp_path / "model_00001.weights.h5").unlink()
        for cls in (AlbertBackbone, AlbertMaskedLM):
            with pytest.raises(ValueError, match=r"model_00001.* is missing"):
                cls.from_preset(tmp_path)

    def test_a_head_of_another_task_is_not_needed(self, preset, task):
        (preset / "task.weights.h5").unlink()
        embedder = AlbertTextEmbedder.from_preset(preset)
        tagger = AlbertTokenClassifier.from_preset(preset, num_classes=3)
        backbone = AlbertBackbone.from_preset(preset)
        for got in (embedder.backbone, tagger.backbone, backbone):
            kept = task.backbone.get_weights()[0]
            np.testing.assert_array_equal(got.get_weights()[0], kept)

    def test_weights_that_are_not_asked_for(self, preset):
        (preset / "task.weights.h5").unlink()
        (preset / "model.weights.h5").unlink()
        AlbertMaskedLM.from_preset(preset, load_weights=False)

    def test_a_preprocessor_that_is_given(self, preset, task):
        (preset / VOCABULARY).unlink()
        given = {"preprocessor": task.preprocessor}
        copy = AlbertMaskedLM.from_preset(preset, **given)
        assert copy.preprocessor is task.preprocessor
        assert copy.fill_mask("the [MASK]") == task.fill_mask("the [MASK]")


def test_a_preprocessor_that_is_given_keeps_its_vocabulary(preset):
    proto = train_vocabulary(["another text", "of other words"] * 9, vocabulary_size=28)
    given = AlbertMaskedLMPreprocessor(AlbertTokenizer(proto), max_sequence_length=20)
    kept = given.tokenizer.proto
    task = AlbertMaskedLM.from_preset(preset, preprocessor=given)
    assert task.preprocessor is given
    assert given.tokenizer.proto == kept


def test_a_larger_vocabulary_than_the_embeddings_is_refused(preset):
    proto = parse_vocabulary((preset / VOCABULARY).read_bytes())
    for number in range(130):
        proto.pieces.add(piece=f"more{number}", score=-9.0)
    (preset / VOCABULARY).write_bytes(proto.SerializeToString())
    message = rf"{preset} .*vocabulary has \d+ tokens, but the backbone embeds 130"
    with pytest.raises(ValueError, match=message):
        AlbertMaskedLM.from_preset(preset)


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda content: b"\xff\xfe" + content,
    "a list": lambda content: b"[" + content + b"]",
    "nested": lambda content: b"[" * 100_000,
    "another": lambda content: b'{"registered_name": 3, "config": []}',
    "a pointer": lambda content: b"version https://git-lfs.github.com/spec/v1",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_damaged_config_is_named(preset, name, damage):
    path = preset / name
    path.write_bytes(damage(path.read_bytes()))
    for cls in (AlbertMaskedLM, AlbertBackbone)[: 1 + (name == "config.json")]:
        with pytest.raises(ValueError, match=rf"{name}.* again"):
            cls.from_preset(preset)


@pytest.mark.parametrize("damage", ["empty", "cut", "a pointer"])
@pytest.mark.parametrize(
    "name", ["metadata.json", "model.weights.h5", "task.weights.h5", VOCABULARY]
)
def test_a_damaged_file_is_named(preset, name, damage):
    path = preset / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    for cls in (AlbertMaskedLM, AlbertBackbone)[: 1 + (name == "model.weights.h5")]:
        with pytest.raises(ValueError, match=name):
            cls.from_preset(preset)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("activation", value) for value in ("nope", 3, ["relu"], {"a": 1})),
        *(("layer_norm_epsilon", value) for value in (-1.0, float("nan"), "small")),
        *(("dropout", value) for value in (-0.5, 2, float("inf"), None)),
        *(("num_heads", value) for value in (0, 3, "2", 10**6)),
        ("use_embedding_projection", False),
        ("mask_token_rate", float("nan")),
        ("dropout", float("nan")),
        ("registered_name", "keras_albert>AlbertBackbones"),
        ("class_name", "Lambda"),
    ],
)
def test_a_config_of_nonsense_names_the_preset(preset, key, value):
    change_all(preset, **{key: value})
    with pytest.raises(ValueError, match=str(preset)) as error:
        AlbertMaskedLM.from_preset(preset)
    if str(value) == "nan" and key != "mask_token_rate":
        assert f"Received: {key}=nan" in str(error.value)


def test_unknown_arguments_of_a_config_name_the_preset(preset):
    path = preset / "task.json"
    config = json.loads(path.read_text())
    more = config | {"config": config["config"] | {"num_labels": 3}}
    path.write_text(json.dumps(more))
    with pytest.raises(ValueError, match=rf"{preset}.*num_labels"):
        AlbertMaskedLM.from_preset(preset)


def test_a_wrong_argument_is_no_damage(preset):
    with pytest.raises(TypeError, match=r"^AlbertMaskedLM has no argument `?nope"):
        AlbertMaskedLM.from_preset(preset, nope=3)


@pytest.mark.parametrize(
    "name", ["mine>Tagger", "keras_albert>AlbertTokenizer", "keras_hub>BertMaskedLM"]
)
def test_a_task_of_another_class_is_named(preset, name):
    change_json(preset / "task.json", registered_name=name)
    with pytest.raises(ValueError, match=r"task\.json describes a"):
        AlbertMaskedLM.from_preset(preset)


@pytest.mark.parametrize(
    ("name", "other", "changes"),
    [
        ("config.json", "task.json", {"num_layers": 3}),
        ("config.json", "task.json", {"dropout": 0.5}),
        ("config.json", "task.json", {"activation": "relu"}),
        ("preprocessor.json", "task.json", {"max_sequence_length": 23}),
        ("tokenizer.json", "preprocessor.json", {"text_rules": "keep"}),
    ],
)
def test_configs_that_contradict_each_other_are_named(preset, name, other, changes):
    change(preset / name, **changes)
    (key,) = changes
    with pytest.raises(ValueError, match=rf"{name} and .*{other} contra.*`.*{key}`"):
        AlbertMaskedLM.from_preset(preset)


class TestSizes:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"num_layers": 10**30}, "`num_layers` must be"),
            ({"num_layers": True}, "`num_layers` must be a whole number.*=True"),
            ({"hidden_dim": 10**4000}, "`hidden_dim` must be at most .*=1000"),
            ({"hidden_dim": 16.0}, "`hidden_dim` must be.*=16.0"),
            ({"hidden_dim": None}, "`hidden_dim` must be.*=None"),
            ({"hidden_dim": -16}, "`hidden_dim` must be.*=-16"),
            *(
                ({name: 10**8}, r"a model of at least [\d,]+ weights, and its files")
                for name in ("embedding_dim", "intermediate_dim", "vocabulary_size")
            ),
            ({"num_segments": 10**8}, "describes a model of at least"),
            (dict.fromkeys(("num_layers", "num_groups"), 500), "a model of 500 blocks"),
            ({"num_groups": 5}, "at least `num_groups`.* num_layers=2, num_groups=5"),
            ({"num_heads": 3}, "`hidden_dim` is not a multiple of"),
        ],
    )
    @pytest.mark.parametrize("cls", [AlbertBackbone, AlbertMaskedLM])
    def test_nothing_is_built(self, preset, monkeypatch, cls, changes, message):
        def build(self, *arguments, **kwargs):
            raise AssertionError("built")

        monkeypatch.setattr(AlbertBackbone, "__init__", build)
        change_all(preset, **changes)
        with pytest.raises(ValueError, match=message) as caught:
            cls.from_preset(preset)
        assert "config.json" in str(caught.value)
        assert "Copy or download" in str(caught.value)

    def test_without_files_large_models_may_be_built_and_no_monsters(self):
        groups = {"num_groups": 1, "num_inner_repetitions": 1}
        large = TINY | groups | {"hidden_dim": 4096, "intermediate_dim": 16_384}
        check_backbone_size(large, [], "config.json")
        with pytest.raises(ValueError, match="and it has no files"):
            check_backbone_size(large | {"num_groups": 4}, [], "config.json")

    @pytest.mark.parametrize(
        ("cls", "exits", "changes"),
        [
            (AlbertTokenClassifier, {}, {"num_classes": 10**8}),
            (AlbertClassifier, {"exits": 2}, {"exits": 10**6}),
            (AlbertClassifier, {"exits": 2}, {"exits": 1000, "num_classes": 10**4}),
            (AlbertClassifier, {"exits": 2}, {"exits": True, "num_classes": 10**6}),
            (
                AlbertClassifier,
                {},
                {"num_classes": None, "labels": list(map(str, range(4 * 10**5)))},
            ),
        ],
    )
    def test_of_a_head(self, cls, exits, changes, task, tmp_path, monkeypatch):
        labels = ["a", "b", "c"]
        cls(task.backbone, labels=labels, **exits).save_to_preset(tmp_path)
        change(tmp_path / "task.json", **changes)

        def build(self, *arguments, **kwargs):
            raise AssertionError("built")

        monkeypatch.setattr(cls, "__init__", build)
        with pytest.raises(ValueError, match=r"The task of .* describes|as many names"):
            cls.from_preset(tmp_path)

    def test_a_little_too_large(self, preset):
        change_all(preset, vocabulary_size=140)
        with pytest.raises(ValueError, match=r"its config do not belong together"):
            AlbertMaskedLM.from_preset(preset)


@pytest.mark.parametrize("value", [25, 10**9, "many", 2.5])
def test_more_masks_than_tokens_are_refused(preset, value):
    change_all(preset, mask_selection_length=value)
    message = re.escape(str(preset)) + ".*`?mask_selection_length`? .* Copy"
    with pytest.raises(ValueError, match=message):
        AlbertMaskedLM.from_preset(preset)


@pytest.mark.parametrize(
    ("files", "key", "value"),
    [
        (CONFIGS, "sequence_length", 10**9),
        (CONFIGS[:3], "max_sequence_length", 2**16 + 1),
        (CONFIGS[1:], "max_ngram", 10**9),
        (("tokenizer.json", *CONFIGS[1:3]), "sequence_length", 10**30),
    ],
)
def test_a_number_that_sizes_a_row_is_bounded(preset, files, key, value):
    for name in files:
        change(preset / name, **{key: value})
    for cls in (AlbertMaskedLM, AlbertMaskedLMPreprocessor):
        with pytest.raises(ValueError, match=f"`{key}`.* {value}|`{key}`.*={value}"):
            cls.from_preset(preset)


def test_numbers_of_starts_and_strides_are_bounded(task, tmp_path):
    preprocessor = AlbertQuestionAnswererPreprocessor(
        task.preprocessor.tokenizer, max_sequence_length=24
    )
    reader = AlbertQuestionAnswerer(task.backbone, preprocessor, head="conditional")
    expected = preprocessor(("the", "the lamp " * 20))
    reader.save_to_preset(tmp_path)
    change_all(tmp_path, num_starts=10**9)
    for cls in (AlbertQuestionAnswerer, AlbertQuestionAnswererPreprocessor):
        with pytest.raises(ValueError, match="`num_starts` must be at most 100"):
            cls.from_preset(tmp_path)
    lengths = {"doc_stride": 10**30, "max_query_length": 10**30}
    change_all(tmp_path, num_starts=5, **lengths)
    copy = AlbertQuestionAnswererPreprocessor.from_preset(tmp_path)
    found = copy(("the", "the lamp " * 20))
    assert {name: rows.shape for name, rows in found.items()} == {
        name: rows.shape for name, rows in expected.items()
    }


def arrays_of(path):
    names = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, entry: names.append(name) if hasattr(entry, "shape") else None
        )
    return names


class TestWeights:
    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            *product([np.nan, np.inf, -np.inf], ["float32", "float16", "bfloat16"]),
            (1e300, "float64"),
        ],
    )
    @pytest.mark.parametrize("file", ["model.weights.h5", "task.weights.h5"])
    def test_not_finite(self, preset, file, value, dtype):
        path = preset / file
        name = arrays_of(path)[-1]
        with h5py.File(path, "a") as opened:
            values = opened[name][()].astype(getattr(ml_dtypes, dtype, dtype))
            values.flat[-1] = value
            del opened[name]
            opened.create_dataset(name, data=values).attrs["dtype"] = dtype
        message = rf"{file} has a weight that is NaN or infinite, in '{name}'"
        with pytest.raises(ValueError, match=message):
            AlbertMaskedLM.from_preset(preset)

    def test_of_a_shard(self, task, tmp_path):
        task.save_to_preset(tmp_path, max_shard_size=1e-5)
        path = tmp_path / "model_00001.weights.h5"
        with h5py.File(path, "a") as opened:
            opened[arrays_of(path)[0]][...] = np.nan
        with pytest.raises(ValueError, match=r"model_00001.*NaN or infinite"):
            AlbertBackbone.from_preset(tmp_path)

    def test_of_another_head(self, preset, task, tmp_path_factory):
        other = tmp_path_factory.mktemp("other")
        AlbertTokenClassifier(task.backbone, num_classes=3).save_to_preset(other)
        (preset / "task.weights.h5").write_bytes(
            (other / "task.weights.h5").read_bytes()
        )
        with pytest.raises(ValueError, match=r"task\.weights\.h5 and its config"):
            AlbertMaskedLM.from_preset(preset)

    def test_keras_hub_refuses_them_as_well(self, preset):
        path = preset / "task.weights.h5"
        with h5py.File(path, "a") as opened:
            opened[arrays_of(path)[0]][...] = np.nan
        with pytest.raises(ValueError, match=r"task\.weights\.h5 .*NaN or infinite"):
            keras_hub.models.MaskedLM.from_preset(str(preset))
