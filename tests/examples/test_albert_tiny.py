"""The steps that made the model in the package, with a smaller one and toy texts."""

import gzip
import importlib
import json

import h5py
import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier, AlbertMaskedLM, AlbertTokenizer
from tests.examples.test_examples import EXAMPLES, run

SETTINGS = """
size = "tiny"
steps = 6
batch_size = 8
sequence_length = 64
second_task = "none"
log_every = 1
evaluate_every = 2

[[stages]]
steps = 0.34
sequence_length = 32
backbone = {num_layers = 1}

[[stages]]
sequence_length = 512

[backbone]
num_layers = 2
"""

# The commands themselves are tested on each backend; this tests their combination in
# the example.
pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="one backend is enough for an example"
)


def test_from_texts_to_what_is_released(tmp_path):
    stories = (EXAMPLES / "data" / "stories.txt").read_text(encoding="utf-8")
    documents = stories.strip().split("\n\n")
    (tmp_path / "articles.txt").write_text("\n\n".join(documents[:60]))
    with gzip.open(tmp_path / "shard_0.txt.gz", "wt") as file:
        file.write("\n\n".join(documents[60:66]) + "\n")
    (tmp_path / "MANIFEST.tsv").write_text(
        "shard\ttitle\tyear\tchapters\nshard_0\tOld\t1900\t4\nshard_0\tNew\t1931\t2\n"
    )
    output = tmp_path / "out"
    arguments = [str(tmp_path / "articles.txt"), "--output", str(output)]
    arguments += ["--books", str(tmp_path / "*.txt.gz"), "--workers", "1"]
    arguments += ["--manifest", str(tmp_path / "MANIFEST.tsv")]
    (tmp_path / "settings.toml").write_text(SETTINGS)
    arguments += ["--config", str(tmp_path / "settings.toml"), "--steps", "3"]
    arguments += ["--vocabulary-size", "200", "--held-out", "0.1"]
    run("albert_tiny.py", *arguments)
    counters = json.loads((output / "prepared" / "metadata.json").read_text())
    # Without the two chapters of the newer book.
    assert counters["counters"]["documents"] == 64
    report = json.loads((output / "run" / "report.json").read_text())
    assert report["settings"]["steps"] == 3
    assert report["settings"]["stages"][0]["steps"] == 0.34

    released = output / "albert_tiny_en_uncased"
    card = (released / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card
    assert str(tmp_path) not in card
    with h5py.File(released / "model.weights.h5") as file:
        kinds = set()
        file.visititems(
            lambda _, entry: kinds.add(str(getattr(entry, "dtype", "group")))
        )
    assert kinds == {"group", "float16"}
    whole = AlbertMaskedLM.from_preset(output / "run" / "preset")
    half = AlbertMaskedLM.from_preset(released)
    assert half.backbone.num_layers == 2
    assert half.backbone.max_sequence_length == 512
    for one, other in zip(whole.weights, half.weights, strict=True):
        assert other.dtype == "float32"
        assert abs(one.numpy() - other.numpy()).max() < 1e-3
    classifier = AlbertClassifier.from_preset(released, num_classes=2)
    assert classifier.backbone.pretrained
    # What nothing was learned with is as it was drawn.
    start = AlbertMaskedLM.from_preset(output / "start")
    for one, other in zip(
        start.backbone.pooler.weights, whole.backbone.pooler.weights, strict=True
    ):
        assert (one.numpy() == other.numpy()).all()
    # Once it is done, nothing is done again.
    written = (output / "run" / "report.json").stat().st_mtime_ns
    run("albert_tiny.py", *arguments)
    assert (output / "run" / "report.json").stat().st_mtime_ns == written


@pytest.fixture
def teacher(tmp_path):
    """A sentence encoder with random weights."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *letters]
    pieces += [f"##{letter}" for letter in letters]
    directory = tmp_path / "teacher"
    directory.mkdir()
    (directory / "vocab.txt").write_text("\n".join(pieces))
    BertTokenizerFast(str(directory / "vocab.txt")).save_pretrained(directory)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(directory)
    return directory


def test_student_of_a_sentence_encoder(tmp_path, teacher):
    stories = str(EXAMPLES / "data" / "stories.txt")
    output = tmp_path / "out"
    arguments = [stories, "--preset", "albert_tiny_en_uncased", "--workers", "1"]
    arguments += ["--teacher", str(teacher), "--teacher-texts", "300"]
    arguments += ["--held-out", "0.1", "--output", str(output)]
    run("albert_tiny.py", *arguments, "--teacher-steps", "6")
    with np.load(output / "teacher" / "00000.npz") as chunk:
        assert len(chunk["lengths"]) == 300
        assert chunk["texts"].shape == (300, 16)
        assert np.linalg.norm(chunk["texts"].astype(float), axis=1) == pytest.approx(
            1, abs=1e-2
        )
        assert len(chunk["ids"]) == chunk["lengths"].sum()
    curve = (output / "distilling" / "curve.jsonl").read_text().splitlines()
    # Whole epochs of four batches of texts and one of long rows.
    first, last = map(json.loads, curve)
    assert (first["step"], last["step"]) == (5, 10)
    assert {"words_error", "val_masked_lm_accuracy"} < set(last)
    card = (output / "albert_tiny_en_uncased" / "README.md").read_text()
    assert f"- tokens read: `{first['tokens'] + last['tokens']}`" in card
    assert "- teacher: `teacher`" in card
    before = AlbertMaskedLM.from_preset("albert_tiny_en_uncased")
    after = AlbertMaskedLM.from_preset(output / "distilled")
    changed = after.backbone.pooler.kernel - before.backbone.pooler.kernel
    assert keras.ops.max(keras.ops.abs(changed)) > 0
    # More steps continue the same run.
    run("albert_tiny.py", *arguments, "--teacher-steps", "11")
    rows = (output / "distilling" / "curve.jsonl").read_text().splitlines()
    assert rows[:2] == curve
    assert [json.loads(row)["step"] for row in rows] == [5, 10, 15]
    card = (output / "albert_tiny_en_uncased" / "README.md").read_text()
    assert "- steps: `11`" in card


def test_batches_are_of_similar_texts(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    distil = importlib.import_module("distil")
    generator = np.random.default_rng(0)
    subject = np.repeat(np.arange(4), distil.BATCH)
    vectors = np.eye(8)[subject] + generator.normal(0, 0.05, (len(subject), 8))
    texts = generator.permutation(len(subject))
    batches = distil.similar_texts(texts, vectors.astype("float16"), generator)
    assert sorted(np.concatenate(batches)) == list(range(len(subject)))
    assert [len(set(subject[batch])) for batch in batches] == [1, 1, 1, 1]


@pytest.mark.parametrize("columns", [1, 2])
def test_targets_of_a_row_are_those_of_its_texts(columns, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    distil = importlib.import_module("distil")
    tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
    rows = tokenizer(["a cat sat down", "unbelievable nonsense", "two words"])
    rows = [np.asarray(row, "int32") for row in rows]
    pieces = [[tokenizer.id_to_token(int(i)) for i in row] for row in rows]
    # A word's vector is its number in the chunk.
    batches = object.__new__(distil.Batches)
    batches.generator = np.random.default_rng(0)
    batches.special = distil.SpecialIds(
        tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    )
    rates = distil.MaskingRates(0.1, 1.0, 0.0, max_ngram=1)
    batches.masking = distil.WholeWordMasking(tokenizer, rates)
    batches.ids = distil.TokenRows.from_arrays(rows)
    words = [sum(piece.startswith("▁") for piece in row) for row in pieces]
    first_word = np.cumsum([0, *words[:-1]])
    count = sum(words)
    begins = distil.begins_word(tokenizer)[batches.ids.values]
    words = np.cumsum(begins, dtype="int32") - 1
    batches.words = distil.TokenRows(words, batches.ids.lengths)
    batches.chunk = distil.Chunk(
        batches.ids.values,
        batches.ids.lengths,
        np.arange(count, dtype="float16")[:, None],
        np.zeros((3, 1), "float16"),
    )

    picked = (np.array([1, 2]), np.array([0, 2]))[:columns]
    x, targets = batches._pack(*picked)
    y, weights = batches._all_targets(x, targets)

    for number in range(2):
        expected = []
        for column in picked:
            text = column[number]
            word = first_word[text] - 1
            expected.append(None)
            for piece in pieces[text]:
                word += piece.startswith("▁")
                expected.append(word)
        expected.append(None)
        assert x["padding_mask"][number].sum() == len(expected)
        for place, word in enumerate(expected):
            assert (weights["words"][number, place] > 0) == (word is not None)
            if word is not None:
                assert y["words"][number, place, 0] == word
    assert not weights["pair"].any()
    assert not weights["text"].any()


def test_the_most_similar_is_another_text(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    distil = importlib.import_module("distil")
    angles = np.array([0.0, 1.0, 0.1, 2.0, 0.9])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert distil.most_similar(vectors).tolist() == [2, 4, 0, 1, 1]


def test_vectors_of_words_are_those_of_their_tokens(teacher, monkeypatch):
    import torch
    from transformers import AutoModel, AutoTokenizer

    monkeypatch.syspath_prepend(EXAMPLES)
    load_teacher = importlib.import_module("teacher_vectors").load_teacher

    words = ["the", "cat", "sat."]
    of_words, of_texts = load_teacher(str(teacher), "bfloat16")([words])
    model = AutoModel.from_pretrained(teacher, dtype=torch.bfloat16).eval()
    batch = AutoTokenizer.from_pretrained(teacher)(" ".join(words), return_tensors="pt")
    with torch.inference_mode():
        layers = model(**batch, output_hidden_states=True).hidden_states
    mean = layers[-1][0].float().mean(0)
    assert of_texts[0] == pytest.approx((mean / mean.norm()).numpy(), abs=1e-2)
    tokens = sum(
        torch.nn.functional.layer_norm(layer[0].float(), (16,)) for layer in layers[-2:]
    )
    # "cat" is the fifth to the seventh token: [CLS] t ##h ##e c ##a ##t.
    cat = tokens[4:7].mean(0) / 2
    assert of_words[1] == pytest.approx(cat.numpy(), abs=2e-2)
