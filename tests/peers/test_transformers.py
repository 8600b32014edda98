"""What transformers' tests of ALBERT assert; `tests/peers/__init__.py` has the others.

Sizes are those of its `AlbertModelTester`.
"""

import keras
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertMaskedLM,
    AlbertMultipleChoice,
    AlbertTokenizer,
)
from keras_albert.text import TextRules
from tests.compiled import gradients, to_numpy
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

BATCH, LENGTH, VOCABULARY, CHOICES = 2, 7, 32, 4
SIZES = {
    "vocabulary_size": VOCABULARY,
    "num_layers": 2,
    "num_groups": 2,
    "num_heads": 4,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 20,
    "max_sequence_length": 8,
    "activation": "gelu",
    "seed": 1,
}
TASKS = {
    "AlbertForMaskedLM": (AlbertMaskedLM, (BATCH, LENGTH, VOCABULARY)),
    "AlbertForMultipleChoice": (AlbertMultipleChoice, (BATCH, CHOICES)),
}


def make_inputs(name):
    """Random ids, the second row with padding; a question and a context."""
    rng = np.random.default_rng(0)
    inputs = {
        "token_ids": rng.integers(5, VOCABULARY, (BATCH, LENGTH)),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1]] * BATCH),
        "padding_mask": np.array([[1] * 7, [1] * 6 + [0]]),
    }
    if name == "AlbertForMaskedLM":
        return inputs | {"mask_positions": np.array([range(LENGTH)] * BATCH)}
    shape = (BATCH, CHOICES, LENGTH)
    inputs = {key: np.broadcast_to(ids[:, None], shape) for key, ids in inputs.items()}
    return inputs | {"token_ids": rng.integers(5, VOCABULARY, shape)}


def make_task(name, dropout=0.1):
    keras.utils.set_random_seed(1)
    backbone = AlbertBackbone(**SIZES, dropout=dropout, attention_dropout=dropout)
    return TASKS[name][0](backbone)


@pytest.mark.parametrize("name", TASKS)
def test_every_weight_has_a_gradient(name):
    """`test_training` and `test_retain_grad_hidden_states_attentions`."""
    task, inputs = make_task(name, dropout=0.0), make_inputs(name)
    weights = np.random.default_rng(3).normal(size=TASKS[name][1])

    def weigh(outputs):
        return keras.ops.sum(outputs * keras.ops.array(weights, "float32"))

    _, found = gradients(task, weigh, inputs)
    unused = {"pooled_dense"} if name == "AlbertForMaskedLM" else set()
    for variable, gradient in zip(task.trainable_variables, found, strict=True):
        if not unused & set(variable.path.split("/")):
            assert np.abs(gradient).max() > 0, variable.path


def test_initial_weights():
    """`test_initialization`: normal by 0.02; LayerNorm is 1 and 0."""
    sizes = SIZES | {"vocabulary_size": 2000, "embedding_dim": 64}
    for variable in AlbertBackbone(**sizes).trainable_variables:
        values = to_numpy(variable.value)
        if variable.path.endswith("gamma"):
            assert (values == 1).all()
        elif variable.path.endswith(("beta", "bias")):
            assert (values == 0).all()
        else:
            assert 0 < np.abs(values).max() <= 0.0401  # cut at two deviations
        if variable.path.endswith("token_embedding/embeddings"):
            assert abs(values.std() / 0.02 - 0.88) < 0.02  # of the cut normal
            assert abs(values.mean()) < 1e-3


@pytest.mark.shared_data
class TestReleasedVocabulary:
    """The ids that transformers' tests expect, of ALBERT's own vocabulary."""

    def test_integration(self, shared_data):
        tokenizer = AlbertTokenizer(shared_data / "albert_spm" / "spiece.model")
        text = "This is a test 😊\nI was born in 92000, and this is falsé.\n<s>\nhi<s>"
        expected = [48, 25, 21, 1289, 13, 1, 31, 23, 386, 19, 561, 3050, 15, 17, 48]
        expected += [25, 4997, 9, 13, 1, 18, 1, 4148, 1, 18, 1]
        assert tokenizer(text).tolist() == expected

    def test_full_tokenizer(self, shared_data):
        """With accents kept."""
        rules = TextRules(strip_accents=False)
        path = shared_data / "albert_spm" / "spiece.model"
        tokenizer = AlbertTokenizer(path, text_rules=rules)
        assert tokenizer("This is a test").tolist() == [48, 25, 21, 1289]
        ids = [31, 23, 386, 19, 561, 3050, 15, 17, 48, 25, 8256, 18, 1, 9]
        assert tokenizer("I was born in 92000, and this is falsé.").tolist() == ids
