"""Pages that run models in a browser answer as Python does."""

import json

import numpy as np
import pytest

from keras_albert.exports import export_web_page
from tests.browser import opened_page, served_folder
from tests.exports.served_models import LONG as MANY_WINDOWS
from tests.exports.served_models import TAGS, balance, make_task
from tests.exports.test_transformers_onnx import LONG, TEXTS
from tests.javascript import NODE
from tests.word_pieces import word_proto

pytest.importorskip("onnxscript")

CONTEXT = f"{TEXTS[1]} The café 漢字, £5 - Wind comes in! {MANY_WINDOWS}"
# Sets the fields of a form, runs it, and returns the answer and the line below it.
ASK = """
new Promise((resolve) => {
  const [number, values] = %s;
  const form = document.querySelectorAll("section")[number];
  for (const [name, text] of Object.entries(values)) {
    form.querySelector(`textarea[name=${name}]`).value = text;
  }
  new MutationObserver(() => {
    const { answer } = form.dataset;
    const line = form.querySelector(".status").textContent;
    if (answer) resolve([JSON.parse(answer), line]);
  }).observe(form, { attributes: true });
  form.querySelector("button").click();
})
"""


@pytest.fixture(scope="module")
def tasks(tiny_proto):
    words = word_proto()
    made = {
        "classes": make_task("Classifier", tiny_proto, labels=("bad", "très bien")),
        "sets": make_task(
            "Classifier", words, labels=("a", "b", "c"), activation="sigmoid"
        ),
        "score": make_task("Classifier", words, num_classes=1),
        "tags": make_task("TokenClassifier", words, max_length=80, labels=TAGS),
        "questions": make_task("QuestionAnswerer", words, lengths={"doc_stride": 9}),
        "spm": make_task("QuestionAnswerer", tiny_proto, lengths={"doc_stride": 9}),
        "vectors": make_task("TextEmbedder", words),
        "masks": make_task("MaskedLM", tiny_proto),
    }
    # Of an even number of rows: no score is the median, and so equal to another.
    balance(made["tags"], made["tags"].output_dense.bias, [*TEXTS, LONG])
    return made


@pytest.fixture(scope="module")
def folder(tasks, tmp_path_factory):
    if not (NODE / "node_modules" / "@huggingface" / "tokenizers").is_dir():
        pytest.skip("no transformers.js in build/node: `nox -s tests` installs it")
    path = tmp_path_factory.mktemp("page") / "page"
    return export_web_page(tasks, path, NODE)


@pytest.fixture(scope="module")
def ask(tasks, folder, tmp_path_factory):
    """Return a function that has a form of the page answer, in float32."""
    from keras_albert.exports.onnx.export import write_onnx

    for number, task in enumerate(tasks.values()):
        model = folder / f"models/{number}/onnx/model_quantized.onnx"
        if number:
            write_onnx(task, model, "transformers")
    with (
        served_folder(folder) as address,
        opened_page(address, tmp_path_factory.mktemp("profile")) as page,
    ):
        page.wait_for("document.documentElement?.dataset.ready")

        def fill_in(name, **values):
            form = [list(tasks).index(name), values]
            found, line = page.run(ASK % json.dumps(form))
            assert "error" not in found, found
            assert " ms; int8, " in line
            return found, line

        fill_in.page = page
        yield fill_in
        assert page.problems == []
        assert {url.startswith(address) for url in page.requests} == {True}


def test_classes(ask, tasks):
    # In int8.
    found, _ = ask("classes", text=TEXTS[0])
    expected = tasks["classes"].classify(TEXTS[0])
    assert found[0]["label"] == expected["label"]
    assert found[0]["score"] == pytest.approx(expected["score"], abs=0.05)
    for text in (*TEXTS, LONG):
        found, line = ask("sets", text=text)
        expected = tasks["sets"].predict([text], verbose=0)[0]
        scores = {answer["label"]: answer["score"] for answer in found}
        scores = [scores[label] for label in tasks["sets"].class_names]
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        assert ("its beginning was read" in line) == (text == LONG)
        found, _ = ask("score", text=text)
        expected = tasks["score"].predict([text], verbose=0)[0, 0]
        assert found["score"] == pytest.approx(expected, abs=1e-5)


def test_entities(ask, tasks):
    for text in (*TEXTS, "The café [x] 漢字 \u200b and said", ""):
        found, _ = ask("tags", text=text)
        expected = tasks["tags"].tag(text)
        scores = [[entity.pop("score") for entity in row] for row in (found, expected)]
        assert found == expected
        np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize("name", ["questions", "spm"])
def test_answers(ask, tasks, name):
    for question in ("the captain?", "What is the wind?", "£5"):
        found, _ = ask(name, question=question, context=CONTEXT)
        expected = tasks[name].answer(question, CONTEXT)
        assert found["score"] == pytest.approx(expected["score"], abs=1e-5)
        assert found == expected | {"score": found["score"]}
    found, _ = ask(name, question="the wind?", context=" ")
    assert found == {"answer": "", "score": 1, "start": 0, "end": 0}


def test_similarity_and_masks(ask, tasks):
    found, _ = ask("vectors", text=TEXTS[0], other=LONG)
    first, second = tasks["vectors"].embed([TEXTS[0], LONG])
    assert found["similarity"] == pytest.approx(float(first @ second), abs=1e-5)
    text = "the [MASK] runs through"
    found, _ = ask("masks", text=text)
    expected = tasks["masks"].fill_mask(text)
    assert [x["token"] for x in found] == [x["token"] for x in expected]
    scores = [x["score"] for x in expected]
    np.testing.assert_allclose([x["score"] for x in found], scores, atol=1e-5)


def test_the_page_fits_a_phone(ask):
    for width in (390, 1280):
        ask.page.resize(width, 844)
        assert ask.page.run("document.documentElement.scrollWidth") <= width


def test_a_page_is_replaced_and_other_files_stay(tasks, folder, tmp_path):
    (tmp_path / "robots.txt").write_text("mine")
    export_web_page({"a": tasks["score"], "b": tasks["sets"]}, tmp_path, NODE)
    tasks["tags"].export(tmp_path, format="web_page", javascript=NODE)
    assert (tmp_path / "robots.txt").read_text() == "mine"
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["0"]
    (found,) = json.loads((tmp_path / "models.json").read_text())["models"]
    assert found["task"] == "AlbertTokenClassifier"
    del folder


def test_what_is_missing_is_named(tasks, tiny_proto, tmp_path):
    path = tmp_path / "page"
    with pytest.raises(FileNotFoundError, match="npm install --ignore-scripts") as it:
        tasks["sets"].export(path, format="web_page", javascript=tmp_path)
    assert f"--prefix {tmp_path}" in str(it.value)
    chooser = make_task("MultipleChoice", tiny_proto)
    with pytest.raises(ValueError, match="no form for AlbertMultipleChoice"):
        chooser.export(path, format="web_page", javascript=tmp_path)
    assert not path.exists()
