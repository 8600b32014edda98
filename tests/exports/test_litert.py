"""All tasks in LiteRT return the numbers of `predict`, with built-in operations."""

import json
import zipfile

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.exports.shared import float_task
from tests.exports.served_models import make_task, write
from tests.exports.token_cases import (
    CASES,
    assert_as_predicted,
    check_missing_choices,
    check_numbers,
    check_scores,
    random_ids,
    wrong_ids,
)
from tests.one_backend import on_one_backend_except

pytest.importorskip("tensorflow")

pytestmark = on_one_backend_except("test_a_file_says_what_it_is")
litert = pytest.importorskip("ai_edge_litert.interpreter")

LENGTH = 9
# The other cases are variants of the same models.
ASKED = sorted(set(CASES) - {"cls", "max", "probabilities", "reader"})
SMALLER = ("dynamic_int8", "fp16")


@pytest.fixture(scope="module")
def tasks(tiny_proto):
    made = {}
    for case in ASKED:
        name, arguments, *_ = CASES[case]
        made[case] = make_task(name, tiny_proto, **arguments)
    # Weights that are larger than the graph, and the other form of GELU.
    backbone = AlbertBackbone(
        vocabulary_size=130,
        num_layers=6,
        num_groups=2,
        num_heads=4,
        embedding_dim=16,
        hidden_dim=256,
        intermediate_dim=1024,
        max_sequence_length=40,
        activation="gelu",
        seed=5,
        adapter_rank=3,
    )
    made["wide"] = AlbertClassifier(backbone, num_classes=2)
    made["rounded"] = make_task("MaskedLM", tiny_proto)
    made["rounded"].quantize("int8")
    return made


@pytest.fixture(scope="module")
def paths(tasks, tmp_path_factory):
    """All files, written in one process, as `export` writes one."""
    folder = tmp_path_factory.mktemp("litert")
    plain = {"sequence_length": None, "quantize": None}
    files = {name: (name, plain) for name in tasks}
    files |= {name: ("wide", plain | {"quantize": name}) for name in SMALLER}
    files["fixed"] = ("classifier", plain | {"sequence_length": LENGTH})
    arguments = []
    for name, (task, options) in files.items():
        if name in tasks:
            float_task(tasks[task]).save_to_preset(folder / task)
        target = folder / f"{name}.tflite"
        arguments += [folder / task, target, json.dumps(options)]
    write("litert", *arguments)
    return {name: folder / f"{name}.tflite" for name in files}


def load(path):
    return litert.Interpreter(str(path), num_threads=1).get_signature_runner()


@pytest.mark.parametrize("case", ASKED)
def test_gives_the_numbers_of_predict(case, tasks, paths):
    run = load(paths[case])
    check_numbers(case, tasks[case], lambda inputs: run(**inputs))
    assert b"Flex" not in paths[case].read_bytes()


def test_what_clients_read_follows_from_the_numbers(tasks, paths):
    for case in ("classifier", "tagger"):
        check_scores(load(paths[case])(**random_ids(tasks[case], (5, 7))))
    run = load(paths["chooser"])
    check_missing_choices(tasks["chooser"], lambda inputs: run(**inputs))


def test_weights_are_there_once_whatever_the_depth(tasks, paths):
    size = 4 * tasks["wide"].count_params()
    sizes = {name: paths[name].stat().st_size for name in ("wide", *SMALLER)}
    assert sizes["wide"] < 1.05 * size
    assert sizes["fp16"] < 0.55 * size
    assert sizes["dynamic_int8"] < 0.3 * size


def test_smaller_files_answer_nearly_the_same(tasks, paths):
    inputs = random_ids(tasks["wide"], (6, LENGTH))
    exact = tasks["wide"].predict(inputs, verbose=0)
    np.testing.assert_allclose(
        load(paths["wide"])(**inputs)["logits"], exact, atol=1e-5
    )
    for name, near in zip(SMALLER, (0.3, 0.01), strict=True):
        found = load(paths[name])(**inputs)["logits"]
        assert 0 < np.abs(found - exact).max() < near * np.abs(exact).max()


def test_bad_ids_are_an_error(tasks, paths):
    run = load(paths["classifier"])
    inputs = random_ids(tasks["classifier"], (2, 7))
    with pytest.raises(RuntimeError):
        run(**random_ids(tasks["classifier"], (2, 41)))
    with pytest.raises(RuntimeError):
        run(**inputs | {"token_ids": inputs["token_ids"] + 10**6})
    with pytest.raises(ValueError, match="FLOAT32"):
        run(**inputs | {"token_ids": inputs["token_ids"].astype(np.float32)})
    with pytest.raises(ValueError, match="expected 3 vs provided 1"):
        run(token_ids=inputs["token_ids"])
    with pytest.raises(RuntimeError):
        load(paths["fixed"])(**inputs)
    nothing = run(**{name: rows[:0] for name, rows in inputs.items()})
    assert nothing["probabilities"].shape == (0, 3)


def test_an_id_without_an_embedding_is_an_error(tasks, paths):
    for file in ("classifier", "filler", *SMALLER):
        case = "filler" if file == "filler" else "classifier"
        for wrong in wrong_ids(random_ids(tasks[case], *CASES[case][3:])):
            with pytest.raises(RuntimeError, match="out of bounds"):
                load(paths[file])(**wrong)


# Keras transposes a vector of scales in the masked language model's head.
@pytest.mark.filterwarnings("ignore:.*The use of `x.T`:UserWarning")
def test_what_keras_quantized_becomes_float32(tasks, paths):
    """LiteRT has no operations for Keras' int8."""
    task = tasks["rounded"]
    inputs = random_ids(task, *CASES["filler"][3:])
    plain = float_task(task)
    assert {variable.dtype for variable in plain.weights} == {"float32"}
    found, rounded = (model.predict(inputs, verbose=0) for model in (plain, task))
    assert 0 < np.abs(rounded - found).max() < 0.3 * found.std()
    assert_as_predicted(load(paths["rounded"])(**inputs)["logits"], found)
    assert b"Flex" not in paths["rounded"].read_bytes()


def test_other_precisions_become_float32(tiny_proto):
    adapters = {"adapter_rank": 2}
    task = make_task("Classifier", tiny_proto, num_classes=3, sizes=adapters)
    assert float_task(task) is task
    config = task.get_config()
    config["backbone"]["config"]["dtype"] = "mixed_bfloat16"
    mixed = type(task).from_config(config)
    mixed.set_weights(task.get_weights())
    plain = float_task(mixed)
    assert {layer.compute_dtype for layer in plain.layers} == {"float32"}
    np.testing.assert_equal(plain.get_weights(), task.get_weights())


def test_a_file_says_what_it_is(tiny_proto, tmp_path):
    # A classifier with exits has one depth, and one head, in this format.
    labels = ("bad", "très bien")
    task = make_task("Classifier", tiny_proto, labels=labels, exits=True)
    path = tmp_path / "new" / "model.tflite"
    assert task.export(path, format="litert", sequence_length=LENGTH) == path
    with zipfile.ZipFile(path) as archive:
        assert archive.read("labels.txt").decode() == "bad\ntrès bien\n"
        metadata = json.loads(archive.read("metadata.json"))
    assert metadata["task"] == "AlbertClassifier"
    assert metadata["labels"] == ["bad", "très bien"]
    assert (metadata["max_length"], metadata["sequence_length"]) == (40, LENGTH)
    assert metadata["versions"]["backend"] == keras.config.backend()
    inputs = random_ids(task, (2, LENGTH))
    expected = task.predict(inputs, verbose=0)
    np.testing.assert_allclose(load(path)(**inputs)["logits"], expected, atol=1e-5)
    details = litert.Interpreter(str(path)).get_input_details()
    assert {tuple(each["shape_signature"]) for each in details} == {(-1, LENGTH)}
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        task.export(path, format="litert")


def test_mediapipe_answers_strings_as_python_does(tmp_path):
    text = pytest.importorskip("mediapipe.tasks.python.text", exc_type=ImportError)
    classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    path = tmp_path / "films.tflite"
    assert classifier.export(path, format="mediapipe") == path
    texts = ["A Great film, isn't it?", "dull and slow ...", "it has scenes. " * 300]
    with text.TextClassifier.create_from_model_path(str(path)) as client:
        for each, expected in zip(texts, classifier.classify(texts), strict=True):
            best = client.classify(each).classifications[0].categories[0]
            assert best.category_name == expected["label"]
            assert best.score == pytest.approx(expected["score"], abs=1e-4)
