"""Test cases for exported models that take ids."""

import numpy as np

from tests.exports.served_models import TAGS

SLOTS = {"mask_positions": np.array([[1, 4], [0, 2], [3, 0]], np.int32)}


def _case(task, outputs, shape=(3, 9), extra=None, **arguments):
    """The task, arguments, outputs of `predict`, shape of ids, and other inputs."""
    return task, arguments, outputs.split(), shape, extra or {}


CASES = {
    "classifier": _case("Classifier", "logits", labels=("a", "b", "é")),
    "probabilities": _case(
        "Classifier", "probabilities", num_classes=2, activation="softmax"
    ),
    "labels": _case("Classifier", "probabilities", num_classes=3, activation="sigmoid"),
    "regression": _case("Classifier", "score", num_classes=1),
    "mean": _case("TextEmbedder", "embedding"),
    "weighted": _case("TextEmbedder", "embedding", inverse_frequency=0.01),
    "max": _case("TextEmbedder", "embedding", pooling_mode="max", normalize=False),
    "cls": _case("TextEmbedder", "embedding", pooling_mode="cls", dim=12),
    "tagger": _case("TokenClassifier", "logits", labels=TAGS),
    "reader": _case("QuestionAnswerer", "start_logits end_logits"),
    "doubter": _case(
        *("QuestionAnswerer", "start_logits end_logits answerability"),
        **{"head": "conditional", "start_n_top": 3},
    ),
    "chooser": _case("MultipleChoice", "logits", (3, 2, 9)),
    "filler": _case("MaskedLM", "logits", extra=SLOTS),
    "pretrainer": _case("Pretrainer", "masked_lm sentence_order", extra=SLOTS),
}
RELATED = {"probabilities", "score", "index", "scores"}


def assert_as_predicted(found, wanted, atol=1e-5):
    """Compare with the results of `predict`, ignoring zeros for padding."""
    assert (wanted != 0).any()
    np.testing.assert_allclose(np.where(wanted == 0, 0, found), wanted, atol=atol)


def check_numbers(case, task, run):
    """Compare an export with `predict`; return its outputs, and the inputs."""
    _, _, outputs, shape, extra = CASES[case]
    inputs = random_ids(task, shape, extra)
    if case == "chooser":
        inputs["padding_mask"][1, 1] = 0  # a question with one choice
    predicted = task.predict(inputs, verbose=0)
    expected = predicted if isinstance(predicted, dict) else {outputs[0]: predicted}
    found = run(inputs)
    assert set(outputs) <= set(found) <= set(outputs) | RELATED
    for output in outputs:
        wanted = expected[output].reshape(found[output].shape)
        assert_as_predicted(found[output], wanted)
        assert wanted[wanted > -1e29].std() > 1e-3
    one = run({key: rows[1:2] for key, rows in inputs.items()})
    for output, array in found.items():
        np.testing.assert_allclose(one[output], array[1:2], atol=1e-5)
    return found, inputs


def random_ids(task, shape, extra=None):
    """Make inputs with different amounts of padding at the ends of rows."""
    random = np.random.default_rng(3)
    lengths = random.integers(3, shape[-1] + 1, (*shape[:-1], 1))
    lengths.flat[0] = shape[-1]
    mask = (np.arange(shape[-1]) < lengths).astype(np.int32)
    ids = random.integers(5, task.backbone.vocabulary_size, shape)
    second = (np.arange(shape[-1]) >= lengths // 2).astype(np.int32)
    inputs = {
        "token_ids": ids.astype(np.int32) * mask,
        "segment_ids": second * mask,
        "padding_mask": mask,
    }
    return inputs | (extra or {})


def check_scores(found):
    """What clients read follows from the logits."""
    powers = np.exp(found["logits"])
    expected = powers / powers.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    np.testing.assert_allclose(found["score"], expected.max(axis=-1), atol=1e-6)
    assert (found["index"] == expected.argmax(axis=-1)).all()
    assert found["index"].dtype == np.int32


def check_missing_choices(task, run):
    """A question without choices has none."""
    inputs = random_ids(task, (2, 3, 7))
    inputs["padding_mask"][1] = 0
    found = run(inputs)
    np.testing.assert_allclose(found["scores"].sum(axis=1), [1, 0], atol=1e-6)
    assert found["index"].tolist() == [found["scores"][0].argmax(), -1]


def wrong_ids(inputs):
    """Yield inputs with an id that has no embedding; frameworks count from the end."""
    wrong = {"token_ids": (-5, -1, 130), "segment_ids": (-1, 2)}
    for name, numbers in (wrong | {"mask_positions": (-1, 9)}).items():
        for number in numbers if name in inputs else ():
            ids = inputs[name].copy()
            ids[1, 1] = number
            yield inputs | {name: ids}
