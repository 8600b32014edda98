"""Folders of ONNX models answer as here in the programs that they are written for."""

import json
import random

import numpy as np
import pytest

from tests.exports.served_models import TAGS, WORDS, balance, make_task
from tests.javascript import run_in_node
from tests.word_pieces import word_proto

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

TEXTS = [
    "the river runs through town",
    "and captain said - not today, wind.",
    "wind comes in",
]
LONG = "The café, in 2011 " * 20
QUESTIONS = ["the captain?", "wind comes", "today"]
CONTEXTS = [TEXTS[0], TEXTS[1], f"{TEXTS[2]} and the town"]
MASKED = ["the [MASK] runs", "[MASK] comes in, said the captain"]
# For clients, which have rules of their own.
_DRAWN = random.Random(0)
MANY = TEXTS + [
    " ".join(_DRAWN.choices(WORDS.split(), k=_DRAWN.randint(1, 9))) for _ in range(497)
]
MANY_MASKED = MASKED + [f"{text[:9]} [MASK] {text[9:]}" for text in MANY[:498]]
FORMAT = {"format": "transformers_onnx"}

# Runs a pipeline for each model: [folder, pipeline, settings, inputs, options].
PIPELINES = """
import { pipeline } from "@huggingface/transformers";
const found = [];
for (const [folder, task, settings, inputs, options] of given.calls) {
  const model = await pipeline(task, folder, { local_files_only: true, ...settings });
  const output = await model(...inputs, options);
  found.push(output.tolist ? output.tolist() : output);
}
answer(found);
"""


@pytest.fixture(scope="module")
def tasks(tiny_proto):
    words, wide = word_proto(), {"max_length": 80}
    made = {
        "classifier": make_task(
            *("Classifier", tiny_proto), labels=("bad", "très bien"), **wide
        ),
        "labeler": make_task(
            *("Classifier", words), labels=("a", "b", "c"), activation="sigmoid", **wide
        ),
        "scorer": make_task("Classifier", words, num_classes=1),
        "exits": make_task("Classifier", words, num_classes=2, exits=True),
        "tagger": make_task("TokenClassifier", words, labels=TAGS, **wide),
        "reader": make_task("QuestionAnswerer", words, **wide),
        "spm_reader": make_task("QuestionAnswerer", tiny_proto, **wide),
        "chooser": make_task("MultipleChoice", words),
        "filler": make_task("MaskedLM", words),
        "spm_filler": make_task("MaskedLM", tiny_proto),
        "pretrainer": make_task("Pretrainer", words),
        "embedder": make_task("TextEmbedder", words, sizes={"adapter_rank": 2}),
        "weighted": make_task("TextEmbedder", tiny_proto, inverse_frequency=0.01),
        "first": make_task("TextEmbedder", words, pooling_mode="cls", normalize=False),
    }
    # Not noise, as the other weights.
    made["weighted"]._read_probabilities()
    # Of an even number of rows: no score is the median, and so equal to another.
    balance(made["tagger"], made["tagger"].output_dense.bias, [*TEXTS, LONG])
    return made


@pytest.fixture(scope="module")
def folders(tasks, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return {
        name: task.export(directory / name, **FORMAT) for name, task in tasks.items()
    }


@pytest.fixture(scope="module")
def run(folders):
    """Return a function that computes a model's outputs for texts, as clients do."""
    import transformers

    def compute(name, *texts, file="model", **changed):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folders[name])
        inputs = tokenizer(*texts, padding=True, truncation=True, return_tensors="np")
        inputs = {key: np.int64(array) for key, array in inputs.items()} | changed
        session = onnxruntime.InferenceSession(folders[name] / "onnx" / f"{file}.onnx")
        names = [output.name for output in session.get_outputs()]
        found = dict(zip(names, session.run(None, inputs), strict=True))
        return found, inputs

    return compute


@pytest.mark.parametrize(
    ("name", "architecture", "outputs"),
    [
        ("classifier", "SequenceClassification", {"logits": ["batch", 2]}),
        ("exits", "SequenceClassification", {"logits": ["batch", 2]}),
        ("tagger", "TokenClassification", {"logits": ["batch", "length", 5]}),
        (
            *("reader", "QuestionAnswering"),
            {key: ["batch", "length"] for key in ("start_logits", "end_logits")},
        ),
        ("chooser", "MultipleChoice", {"logits": ["batch", "choices"]}),
        ("pretrainer", "MaskedLM", {"logits": ["batch", "length", "vocabulary"]}),
    ],
)
def test_names_of_inputs_and_outputs(name, architecture, outputs, folders, tasks):
    config = json.loads((folders[name] / "config.json").read_text())
    assert config["architectures"] == [f"BertFor{architecture}"]
    size = tasks[name].backbone.vocabulary_size
    assert config["vocab_size"] == size
    outputs = {
        key: [size if axis == "vocabulary" else axis for axis in axes]
        for key, axes in outputs.items()
    }
    for file in ("model", "model_quantized"):
        session = onnxruntime.InferenceSession(folders[name] / "onnx" / f"{file}.onnx")
        assert {x.name: x.type for x in session.get_inputs()} == dict.fromkeys(
            ("input_ids", "attention_mask", "token_type_ids"), "tensor(int64)"
        )
        assert {x.name: x.shape for x in session.get_outputs()} == outputs


@pytest.mark.parametrize("name", ["classifier", "scorer", "exits"])
def test_logits(name, tasks, run):
    texts = [*TEXTS, LONG]
    expected = tasks[name].predict(texts, verbose=0)
    found, inputs = run(name, texts)
    longest = tasks[name].preprocessor.max_length
    assert inputs["input_ids"].shape == (len(texts), longest)
    np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    rounded, _ = run(name, texts, file="model_quantized")
    assert 1e-6 < np.abs(rounded["logits"] - expected).max() < 1.0


def test_pairs(tasks, run):
    """Zeros instead of segments, as some clients pass them, change nothing."""
    for name in ("classifier", "labeler"):
        expected = tasks[name].predict((TEXTS, CONTEXTS), verbose=0)
        found, inputs = run(name, TEXTS, CONTEXTS)
        zeros = np.zeros_like(inputs["token_type_ids"])
        same, _ = run(name, TEXTS, CONTEXTS, token_type_ids=zeros)
        logits = found["logits"]
        if name == "labeler":
            logits = 1 / (1 + np.exp(-logits))
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        np.testing.assert_array_equal(same["logits"], found["logits"])


def test_spans(tasks, run):
    expected = tasks["spm_reader"].predict((QUESTIONS, CONTEXTS), verbose=0)
    found, _ = run("spm_reader", QUESTIONS, CONTEXTS)
    for name, values in expected.items():
        width = found[name].shape[1]
        np.testing.assert_allclose(found[name], values[:, :width], atol=1e-5, rtol=1e-5)


def test_choices(tasks, folders):
    task, choices = tasks["chooser"], [["wind", "the town"], ["river", "not"]]
    rows = task.preprocessor((QUESTIONS[:2], QUESTIONS[:2], choices))
    names = {
        "input_ids": "token_ids",
        "attention_mask": "padding_mask",
        "token_type_ids": "segment_ids",
    }
    session = onnxruntime.InferenceSession(folders["chooser"] / "onnx" / "model.onnx")
    inputs = {theirs: np.int64(rows[ours]) for theirs, ours in names.items()}
    (logits,) = session.run(None, inputs)
    expected = task.predict((QUESTIONS[:2], QUESTIONS[:2], choices), verbose=0)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_vectors_of_a_mean_with_weights(tasks, run):
    expected = tasks["weighted"].embed(TEXTS)
    found, inputs = run("weighted", TEXTS)
    mask = inputs["attention_mask"][..., None]
    vectors = (found["last_hidden_state"] * mask).sum(1) / mask.sum(1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.fixture(scope="module")
def in_node(folders):
    """What transformers.js answers."""
    fill = {"top_k": 5}
    pool = {"pooling": "mean", "normalize": True}
    calls = {
        "classifier": ("text-classification", MANY, {"top_k": 2}),
        "labeler": ("text-classification", MANY, {"top_k": 3}),
        "tagger": ("token-classification", MANY, {}),
        "filler": ("fill-mask", MANY_MASKED, fill),
        "spm_filler": ("fill-mask", MANY_MASKED, fill),
        "embedder": ("feature-extraction", MANY, pool),
        "weighted": ("feature-extraction", MANY, pool),
        "first": ("feature-extraction", MANY, {"pooling": "cls"}),
        "reader": ("question-answering", QUESTIONS, CONTEXTS, {}),
        "spm_reader": ("question-answering", QUESTIONS, CONTEXTS, {}),
    }
    found = run_in_node(
        PIPELINES,
        calls=[
            [str(folders[name]), task, {}, inputs, options]
            for name, (task, *inputs, options) in calls.items()
        ],
    )
    return dict(zip(calls, found, strict=True))


@pytest.mark.parametrize("name", ["classifier", "labeler"])
def test_labels_in_transformers_js(name, tasks, in_node):
    probabilities = tasks[name].predict(MANY, verbose=0)
    if name == "classifier":
        exponents = np.exp(probabilities)
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
    for row, expected in zip(in_node[name], probabilities, strict=True):
        scores = {answer["label"]: answer["score"] for answer in row}
        found = [scores[label] for label in tasks[name].class_names]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_tags_in_transformers_js(tasks, in_node):
    tokenizer = tasks["tagger"].preprocessor.tokenizer
    tags = tasks["tagger"].predict(MANY, verbose=0).argmax(axis=-1)
    assert len(set(tags.ravel())) > 2
    for text, row, answers in zip(MANY, tags, in_node["tagger"], strict=True):
        names = [TAGS[tag] for tag in row[1 : len(tokenizer(text)) + 1]]
        expected = [(i, name) for i, name in enumerate(names, start=1) if name != "O"]
        assert [(answer["index"], answer["entity"]) for answer in answers] == expected


@pytest.mark.parametrize("name", ["filler", "spm_filler"])
def test_masks_in_transformers_js(name, tasks, in_node):
    for expected, answers in zip(
        tasks[name].fill_mask(MANY_MASKED), in_node[name], strict=True
    ):
        assert [x["token"] for x in answers] == [x["token"] for x in expected]
        np.testing.assert_allclose(
            *([x["score"] for x in each] for each in (answers, expected)), atol=1e-5
        )


@pytest.mark.parametrize("name", ["embedder", "weighted", "first"])
def test_vectors_in_transformers_js(name, tasks, in_node):
    expected = tasks[name].embed(MANY)
    np.testing.assert_allclose(in_node[name], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["reader", "spm_reader"])
def test_answers_in_transformers_js(name, tasks, in_node):
    logits = tasks[name].predict((QUESTIONS, CONTEXTS), verbose=0)
    start, end = (np.float64(logits[f"{key}_logits"]) for key in ("start", "end"))
    start, end = (np.exp(x - x.max(axis=1, keepdims=True)) for x in (start, end))
    start, end = (x / x.sum(axis=1, keepdims=True) for x in (start, end))
    # The position of no answer is not chosen.
    start[:, 0] = end[:, 0] = 0
    best = np.triu(start[:, :, None] * end[:, None, :]).max(axis=(1, 2))
    found = [answer["score"] for answer in in_node[name]]
    np.testing.assert_allclose(found, best, atol=1e-5)


def test_an_earlier_export_is_replaced_and_a_checkpoint_is_not(tasks, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    tasks["filler"].export(tmp_path, **FORMAT)
    tasks["classifier"].export(tmp_path, **FORMAT)
    assert "bad" in (tmp_path / "config.json").read_text()
    assert (tmp_path / "README.md").read_text() == "mine"
    tasks["filler"].save_to_preset(tmp_path / "preset")
    with pytest.raises(FileExistsError, match="files of another checkpoint"):
        tasks["filler"].export(tmp_path / "preset", **FORMAT)


def test_what_clients_cannot_compute_is_refused(tasks, tiny_proto, tmp_path):
    path = tmp_path / "new"
    squashed = make_task("Classifier", tiny_proto, num_classes=2, activation="tanh")
    with pytest.raises(ValueError, match=r"no classifier with activation=.*tanh"):
        squashed.export(path, **FORMAT)
    doubter = make_task("QuestionAnswerer", tiny_proto, head="conditional")
    with pytest.raises(ValueError, match="starts and ends independently"):
        doubter.export(path, **FORMAT)
    bare = type(tasks["filler"])(tasks["filler"].backbone)
    with pytest.raises(ValueError, match="this task has no preprocessor"):
        bare.export(path, **FORMAT)
    with pytest.raises(ValueError, match="has no option `quantize`"):
        tasks["filler"].export(path, quantize="int8", **FORMAT)
    assert not path.exists()
