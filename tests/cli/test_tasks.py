"""Each kind of task, from a file to a preset that the task's class loads."""

import json

import pytest
from huggingface_hub import ModelCard

from keras_albert.tasks.table import TASKS as ROWS
from keras_albert.tools.tasks import TASKS

WORDS = [["Ada", "lives", "in", "Oslo"], ["Oslo", "knows", "Ada"]] * 4
TAGS = [["B-person", "O", "O", "B-place"], ["B-place", "O", "B-person"]] * 4
CHOICES = [
    {"question": "who ran?", "choices": ["a fox", "a dog"], "answer": "A"},
    {"question": "who slept?", "choices": ["a fox", "a dog", "a cat"], "answer": 1},
] * 4
PAIRS = [("a fox", "the fox", 5.0), ("a fox", "the sea", 0.5)] * 4


def lines(rows):
    return "\n".join(map(json.dumps, rows))


def conll():
    texts = (zip(*text, strict=True) for text in zip(WORDS, TAGS, strict=True))
    return "\n\n".join("\n".join(map("\t".join, text)) for text in texts)


def squad():
    context = "Ada lives in Oslo, by the sea."
    questions = [
        {
            "id": str(number),
            "question": "Who lives in Oslo?",
            "answers": [{"text": "Ada", "answer_start": 0}] if number % 2 else [],
            "is_impossible": not number % 2,
        }
        for number in range(8)
    ]
    paragraph = {"context": context, "qas": questions}
    return json.dumps({"data": [{"title": "Ada", "paragraphs": [paragraph]}]})


FILES = {
    "masked-lm": ("a.txt", "the fox ran by the sea\nthe dog slept\n" * 4),
    "multiple-choice": ("a.jsonl", lines(CHOICES)),
    "question-answering": ("a.json", squad()),
    "similarity": (
        "a.csv",
        "text,text_pair,score\n" + "\n".join(f"{a},{b},{n}" for a, b, n in PAIRS),
    ),
    "token-classification": ("a.conll", conll()),
}
SCORES = {
    "masked-lm": {"accuracy", "loss", "perplexity"},
    "multiple-choice": {"accuracy", "loss"},
    "similarity": {"Pearson", "Spearman"},
    "token-classification": {"entity f1", "entity precision", "entity recall"},
}

# The tasks of texts in the hub's list of pipelines.
PIPELINE_TAGS = {
    *("fill-mask", "multiple-choice", "question-answering", "sentence-similarity"),
    *("text-classification", "token-classification"),
}


def test_every_kind_is_tested():
    # The other two have a separate file.
    assert set(FILES) | {"classification", "regression"} == set(TASKS)


@pytest.mark.parametrize("kind", sorted(FILES))
def test_from_a_file_to_a_preset(run, tmp_path, kind):
    name, contents = FILES[kind]
    path, output = tmp_path / name, tmp_path / "run"
    path.write_text(contents, encoding="utf-8")
    train = tmp_path / f"train{path.suffix}"
    train.write_text(contents.replace("fox", "wolf").replace("Oslo", "Rome"))
    flags = {"train": train, "dev": path, "output": output, "epochs": 1}
    parts = [part for key, value in flags.items() for part in (f"--{key}", value)]
    run(kind, *parts, "--batch-size", 4, "--max-length", 32)
    report = json.loads((output / "report.json").read_text())
    expected = SCORES.get(kind, {"exact_match", "f1", "total"})
    assert expected <= set(report["scores"])
    loaded = TASKS[kind].cls.from_preset(output / "preset")
    card = (output / "preset" / "README.md").read_text()
    assert type(loaded).__name__ in card
    metadata = ModelCard(card).data
    assert metadata.pipeline_tag in PIPELINE_TAGS
    assert metadata.library_name == "keras-albert"
    assert metadata.eval_results
    # The code in the model card works.
    assert eval(ROWS[type(loaded).__name__].use, {"model": loaded}) is not None  # noqa: S307


@pytest.mark.parametrize("highest", [0.8, 10.0])
def test_similarities_of_both_files_have_one_scale(run, tmp_path, capsys, highest):
    head, low = "text,text_pair,score\n", "a fox,the sea,0.5\n"
    train, dev, output = (tmp_path / name for name in ("a.csv", "b.csv", "run"))
    train.write_text(head + "a fox,the fox,5\n" + low, encoding="utf-8")
    dev.write_text(head + f"a fox,the dog,{highest}\n" + low, encoding="utf-8")
    run("similarity", "--train", train, "--dev", dev, "--output", output, "--epochs", 1)
    scale = max(5.0, highest)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(f"divided by {scale:g}, to be cosines") == 2
    embedder = TASKS["similarity"].cls.from_preset(output / "preset")
    pairs = (["a fox", "a fox"], ["the dog", "the sea"])
    scores = embedder.evaluate(
        pairs, [highest / scale, 0.5 / scale], verbose=0, return_dict=True
    )
    (row,) = json.loads((output / "report.json").read_text())["epochs"]
    assert row["val_loss"] == pytest.approx(scores["loss"], rel=1e-4)
