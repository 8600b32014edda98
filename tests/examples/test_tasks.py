"""The examples of tasks run from the command line, on little data."""

import gzip
import json

import pytest

from tests.examples.test_examples import run

ARTICLES = [
    {
        "article": "The baker sold bread by the old sea. It rained all day.",
        "questions": ["The baker sold  _  .", "What was the day like?"],
        "options": [["bread", "lamps", "stones", "rain"], ["dry", "wet", "hot", "old"]],
        "answers": ["A", "B"],
        "id": "middle1.txt",
    }
] * 6
COMMONSENSE = [
    {
        "answerKey": "B",
        "id": "1",
        "question": {
            "stem": "Where does bread come from?",
            "choices": [
                {"label": "A", "text": "a lamp"},
                {"label": "B", "text": "a baker"},
                {"label": "C", "text": "the sea"},
            ],
        },
    }
] * 8


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_race_reads_both_forms_and_commonsenseqa_and_saves(tmp_path):
    lines = tmp_path / "middle.jsonl.gz"
    lines.write_bytes(gzip.compress(as_lines(ARTICLES).encode()))
    release = tmp_path / "high"
    release.mkdir()
    (release / "1.txt").write_text(as_lines(ARTICLES[:1]))
    dev = tmp_path / "dev.jsonl"
    dev.write_text(as_lines(COMMONSENSE))
    output = tmp_path / "preset"
    files = ("--train", lines, release, "--dev", dev, "--output", output)
    printed = run("race.py", *map(str, files), "--epochs", "1", "--batch-size", "8")
    assert "dev.jsonl: accuracy" in printed
    assert "of 8 questions (guessing: 33.3%)" in printed
    assert "a baker" in printed
    assert (output / "task.weights.h5").exists()


@pytest.mark.parametrize("objective", ["cosine", "contrastive"])
def test_sentence_similarity_before_and_after(tmp_path, objective):
    rows = [
        ("a man plays", "a man is playing", 5.0),
        ("a dog runs", "the dog ran", 4.5),
        ("a man plays", "a dog runs", 1.0),
        ("the sea is calm", "she sold bread", 0.0),
    ] * 5
    lines = ["index\tsentence1\tsentence2\tscore"]
    lines += [f"{i}\t{a}\t{b}\t{score}" for i, (a, b, score) in enumerate(rows)]
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    output = tmp_path / "preset"
    arguments = ("--objective", objective, "--epochs", "1", "--output", str(output))
    printed = run("sentence_similarity.py", str(tmp_path), *arguments)
    assert "before training" in printed
    assert "after (20 pairs" in printed
    assert (output / "task.json").exists()


def test_semantic_search_before_and_after(tmp_path):
    long = (
        "and so on, of the old town by the sea, with bread and lamps in the rain " * 4
    )
    documents = [f"Title {n}\nTitle {n} is\n{n} {long}" for n in range(20)]
    with gzip.open(tmp_path / "documents.txt.gz", "wt") as file:
        file.write("\n\n".join([*documents, "Short\nparagraphs\nhere", ""]))
    sizes = ("--pairs", "8", "--held-out", "12", "--dims", "256", "8")
    preset = ("--preset", "albert_tiny_en_uncased", "--output", str(tmp_path / "out"))
    asked = ("--query", "a town", "--query", "7")
    arguments = (str(tmp_path / "documents.txt.gz"), *sizes, *preset, *asked)
    printed = run("semantic_search.py", *arguments)
    assert printed.count("before training") == printed.count("after training") == 2
    assert printed.count("a town  ") == 3
    config = json.loads((tmp_path / "out" / "task.json").read_text())["config"]
    assert config["matryoshka_dims"] == [256, 8]


@pytest.mark.shared_data
def test_similarities_are_learned_from_the_real_files(shared_data):
    data = str(shared_data / "glue" / "STS-B")
    printed = run("sentence_similarity.py", data, "--limit", "1500", "--epochs", "3")
    before = float(printed.split("rho: ")[1].split(" before")[0])
    after = float(printed.split("before training, ")[1].split(" after")[0])
    assert after > before + 0.05


def test_it_reads_texts_fills_masks_and_saves(tmp_path):
    paragraphs = ["the old town by the sea", "", "a storm, and rain on the hill"] * 40
    (tmp_path / "a.txt").write_text("\n".join(paragraphs))
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("bread in the small town\n" * 20)
    output = tmp_path / "preset"
    options = ("--epochs", "1", "--vocabulary-size", "40", "--output", str(output))
    printed = run("fill_mask.py", str(tmp_path), *options)
    assert "95 paragraphs" in printed
    assert "held-out masked tokens: loss" in printed
    assert printed.count("%  ") == 15
    assert (output / "task.weights.h5").exists()


@pytest.mark.shared_data
def test_it_beats_the_commonest_token_on_real_books(shared_data):
    printed = run(
        "fill_mask.py",
        str(shared_data / "text" / "books" / "books_000.txt.gz"),
        *("--limit", "2000", "--epochs", "3"),
    )
    accuracy = float(printed.split("accuracy ")[-1].split("%")[0])
    commonest = float(printed.split("commonest token: ")[1].split("%")[0])
    assert accuracy > commonest


SENTENCES = [
    "Ada\tB-person\nLovelace\tI-person\nlived\tO\nin\tO\nLondon\tB-place\n",
    "the\tO\nold\tO\ntown\tO\nof\tO\nYork\tB-place\n",
]


def test_entities_are_learned_from_conll_files(tmp_path):
    pytest.importorskip("seqeval")
    for part in ("train", "dev"):
        (tmp_path / f"{part}.conll").write_text("\n".join(SENTENCES * 8))
    output = tmp_path / "preset"
    options = ("--epochs", "1", "--vocabulary-size", "40", "--output", str(output))
    printed = run("ner.py", str(tmp_path), *options)
    assert "precision" in printed
    assert "person" in printed
    assert (output / "task.weights.h5").exists()
