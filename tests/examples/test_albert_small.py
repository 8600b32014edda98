"""The steps that made the small models of the package, with toy data."""

import json

import keras
import pytest

from keras_albert import (
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertQuestionAnswerer,
    AlbertTokenClassifier,
)
from tests.examples.test_examples import EXAMPLES, run
from tests.foreign_models import save_transformers

# Questions are made of its dates, names and numbers.
TEXT = (
    "The bridge over the river was opened in 1932 by the mayor, Anna Keller. It has "
    "eight lanes, and the tower of the old station is near its northern end. In May "
    "1957 a storm damaged two of the pillars, and ships from Hamburg could not pass "
    "for a week. Since then, the city of Norden has paid for a guard."
)

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="one backend is enough for an example"
)


@pytest.fixture
def encoder(tmp_path):
    """A BERT with random weights."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *letters]
    pieces += [f"##{letter}" for letter in letters]
    directory = tmp_path / "encoder"
    sizes = {"vocabulary_size": len(pieces), "max_sequence_length": 512}
    save_transformers(directory, "BertModel", num_layers=6, **sizes)
    (directory / "vocab.txt").write_text("\n".join(pieces))
    return directory


@pytest.fixture
def data(tmp_path):
    """Files as their authors distribute them, with a few rows."""
    for part, who in (("train", "ann"), ("dev", "bob")):
        words = "".join(
            f"{word}\t{'B-person' if word == who else 'O'}\n"
            for word in ("yes", who, "went", "home")
        )
        context = f"the old cat of {who} sat near the red door all day"
        answer = {"text": "the red door", "answer_start": context.index("the red")}
        qas = [
            {"id": "1", "question": "where", "answers": [answer]},
            {"id": "2", "question": "why", "answers": [], "is_impossible": True},
        ]
        paragraphs = [{"context": context, "qas": qas}]
        articles = {"version": "v2", "data": [{"title": "", "paragraphs": paragraphs}]}
        for name, suffix, text in (
            ("sst2", "tsv", f"sentence\tlabel\na mess for {who}\t0\nso {who}\t1\n"),
            ("ner", "conll", f"{words}\n" * 4),
            ("squad", "json", json.dumps(articles)),
        ):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{part}.{suffix}").write_text(text)
    return tmp_path


def test_from_an_encoder_to_four_presets(tmp_path, encoder, data):
    stories = EXAMPLES / "data" / "stories.txt"
    output = tmp_path / "out"
    (tmp_path / "long.txt").write_text(f"{TEXT}\n" * 3)
    texts = [str(stories), str(tmp_path / "long.txt")]
    arguments = [str(encoder), "--texts", *texts, "--steps", "2", "--epochs", "1"]
    arguments += ["--embedding-dim", "8", "--rank", "2", "--output", str(output)]
    arguments += ["--precision", "mixed_bfloat16", "--batch-size", "2"]
    arguments += ["--workers", "1"]
    for name in ("sst2", "ner", "squad"):
        arguments += [f"--{name}", str(data / name)]
    run("albert_small.py", *arguments)
    name = "albert_small_en_uncased"
    small = AlbertMaskedLM.from_preset(output / name)
    assert small.backbone.dtype_policy.name == "float32"
    assert (small.backbone.num_groups, small.backbone.embedding_dim) == (3, 8)
    card = (output / name / "README.md").read_text(encoding="utf-8")
    assert "- name: albert_small_en_uncased\n" in card
    assert "# How to use it" in card
    assert card.count("# Before you use it") == 1
    assert "What is not known" not in card
    assert str(tmp_path) not in card

    for suffix in ("sst2", "ner", "squad"):
        directory = output / f"{name}_{suffix}"
        metadata = json.loads((directory / "metadata.json").read_text())
        assert metadata["base_preset"] == name
        assert (directory / "difference.safetensors").exists()
        assert not (directory / "model.weights.h5").exists()
        assert "**Data.**" in (directory / "README.md").read_text(encoding="utf-8")
    # The base of the released ones is in the package.
    films = AlbertClassifier.from_preset(output / "sst2" / "preset")
    assert films.labels == ("negative", "positive")
    words = AlbertTokenClassifier.from_preset(output / "ner" / "preset")
    assert words.labels == ("B-person", "O")
    reader = AlbertQuestionAnswerer.from_preset(output / "squad" / "preset")
    for task in (films, words, reader):
        assert task.backbone.dtype_policy.name == "float32"
    # The question that has an answer six times, and what was made from the texts.
    written = json.loads((output / "squad_train.json").read_text())["data"]
    asked = [qa for x in written for p in x["paragraphs"] for qa in p["qas"]]
    assert len({qa["id"] for qa in asked}) == len(asked)
    assert [qa["question"] for qa in asked[-6:]] == ["where"] * 6
    assert len(asked) == 3 * 2 + 6
