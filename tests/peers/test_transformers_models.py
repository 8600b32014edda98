"""What transformers' tests of ALBERT's models assert, of our classes.

The file is `tests/models/albert/test_modeling_albert.py` of transformers 5, with the
mixins that it runs (`ModelTesterMixin`, `PipelineTesterMixin`, `ConfigTester`); sizes
are those of its `AlbertModelTester`. That the numbers are transformers' own, outputs
and gradients, is held by `tests/backbone/test_parity.py` and
`tests/conversion/transformers/test_tasks.py`.

Not here, for they have no counterpart:

- `test_inference_no_head_absolute_embedding`, `test_export` and
  `test_model_from_pretrained` need released weights, and tests need no network.
- Calls without a mask or without segments: the model takes three inputs, as KerasHub's.
- Resizing or replacing token embeddings, `inputs_embeds`, feed-forward chunks, pruned
  heads: KerasHub's backbone has none of them.
- Attention implementations by name, `generate`, caches, offloading to disk, meta
  devices, `accelerate`, PEFT: of PyTorch or of decoders. LoRA and mixed precision are
  in `tests/tasks/test_every_task.py`.
- Zero-shot classification: needs a model fine-tuned on entailment.
"""

import json

import keras
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertQuestionAnswerer,
    AlbertTokenClassifier,
)
from tests.compiled import gradients, to_numpy

BATCH, LENGTH, VOCABULARY, CLASSES, CHOICES = 2, 7, 32, 3, 4
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
# A task, its arguments, the shapes of its outputs, and what it learns from.
TASKS = {
    "AlbertForPreTraining": (
        AlbertPretrainer,
        {},
        {"masked_lm": (BATCH, LENGTH, VOCABULARY), "sentence_order": (BATCH, 2)},
        {
            "masked_lm": np.zeros((BATCH, LENGTH), int),
            "sentence_order": np.zeros(BATCH, int),
        },
    ),
    "AlbertForMaskedLM": (
        AlbertMaskedLM,
        {},
        (BATCH, LENGTH, VOCABULARY),
        np.ones((BATCH, LENGTH), int),
    ),
    "AlbertForMultipleChoice": (
        AlbertMultipleChoice,
        {},
        (BATCH, CHOICES),
        np.array([3, 0]),
    ),
    "AlbertForSequenceClassification": (
        AlbertClassifier,
        {"num_classes": CLASSES},
        (BATCH, CLASSES),
        np.array([0, 2]),
    ),
    "AlbertForTokenClassification": (
        AlbertTokenClassifier,
        {"num_classes": CLASSES},
        (BATCH, LENGTH, CLASSES),
        np.array([[0, 1, 2, 0, 1, 2, 0]] * BATCH),
    ),
    "AlbertForQuestionAnswering": (
        AlbertQuestionAnswerer,
        {},
        {"start_logits": (BATCH, LENGTH), "end_logits": (BATCH, LENGTH)},
        {"start_logits": np.array([3, 4]), "end_logits": np.array([4, 5])},
    ),
}


def make_inputs(name="AlbertModel"):
    """Random ids, the second row with padding; a question and a context."""
    rng = np.random.default_rng(0)
    inputs = {
        "token_ids": rng.integers(5, VOCABULARY, (BATCH, LENGTH)),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1]] * BATCH),
        "padding_mask": np.array([[1] * 7, [1] * 6 + [0]]),
    }
    if name == "AlbertForMultipleChoice":
        shape = (BATCH, CHOICES, LENGTH)
        inputs = {
            key: np.broadcast_to(ids[:, None], shape) for key, ids in inputs.items()
        }
        inputs["token_ids"] = rng.integers(5, VOCABULARY, shape)
    if name in ("AlbertForPreTraining", "AlbertForMaskedLM"):
        inputs["mask_positions"] = np.array([range(LENGTH)] * BATCH)
    return inputs


def make_task(name, dropout=0.1, **arguments):
    keras.utils.set_random_seed(1)
    cls, defaults, _, _ = TASKS[name]
    backbone = AlbertBackbone(**SIZES, dropout=dropout, attention_dropout=dropout)
    return cls(backbone, **defaults | arguments)


def test_config():
    """`ConfigTester`: through JSON and back; what is given is what stands there."""
    config = AlbertBackbone(**SIZES).get_config()
    assert {name: config[name] for name in SIZES} == SIZES
    again = AlbertBackbone.from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config


def test_model():
    outputs = AlbertBackbone(**SIZES)(make_inputs())
    assert tuple(outputs["sequence_output"].shape) == (BATCH, LENGTH, 16)
    assert tuple(outputs["pooled_output"].shape) == (BATCH, 16)


@pytest.mark.parametrize("name", TASKS)
def test_for_each_task(name, tmp_path):
    """`test_for_...` of each class, and of the mixin `test_save_load`,
    `test_determinism`, `test_batching_equivalence` and `test_training`."""
    task, inputs = make_task(name), make_inputs(name)
    outputs = to_numpy(task(inputs))
    shapes = keras.tree.map_structure(np.shape, outputs)
    assert shapes == TASKS[name][2]
    # Nothing drops out, and nothing else is random.
    keras.tree.map_structure(
        np.testing.assert_array_equal, to_numpy(task(inputs)), outputs
    )
    alone = to_numpy(task({key: ids[1:] for key, ids in inputs.items()}))
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a[0], b[1], atol=1e-5), alone, outputs
    )
    task.save_to_preset(tmp_path / "preset")
    loaded = type(task).from_preset(tmp_path / "preset")
    keras.tree.map_structure(
        np.testing.assert_array_equal, to_numpy(loaded(inputs)), outputs
    )
    loss = task.train_on_batch(inputs, task.encode_id_targets(TASKS[name][3]))
    assert np.isfinite(np.max(loss))


@pytest.mark.parametrize("name", ["AlbertForMaskedLM", "AlbertForMultipleChoice"])
def test_every_weight_has_a_gradient(name):
    """`test_training` and `test_retain_grad_hidden_states_attentions`."""
    task, inputs = make_task(name, dropout=0.0), make_inputs(name)
    weights = np.random.default_rng(3).normal(size=TASKS[name][2])

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


def test_states_and_scores_of_each_layer():
    """`test_hidden_states_output` and `test_attention_outputs`."""
    backbone, inputs = AlbertBackbone(**SIZES), make_inputs()
    embedded = backbone.embedding(inputs["token_ids"], inputs["segment_ids"])
    outputs = backbone.encoder(
        embedded,
        padding_mask=inputs["padding_mask"],
        return_hidden_states=True,
        return_attention_scores=True,
    )
    _, states, scores = outputs
    states, scores = to_numpy(states), to_numpy(scores)
    assert len(states) == SIZES["num_layers"] + 1
    assert {state.shape for state in states} == {(BATCH, LENGTH, 16)}
    assert len(scores) == SIZES["num_layers"]
    assert {score.shape for score in scores} == {(BATCH, 4, LENGTH, LENGTH)}
    np.testing.assert_allclose(np.sum(scores, axis=-1), 1, atol=1e-5)
    final = to_numpy(backbone(inputs)["sequence_output"])
    np.testing.assert_allclose(states[-1], final, atol=1e-6)


def test_tied_weights():
    """`test_tied_weights_keys` and its siblings: embeddings exist once."""
    task, inputs = make_task("AlbertForMaskedLM"), make_inputs("AlbertForMaskedLM")
    shapes = [tuple(variable.shape) for variable in task.variables]
    assert shapes.count((VOCABULARY, 8)) == 1
    before = to_numpy(task(inputs))
    embeddings = task.backbone.token_embedding.embeddings
    embeddings.assign(embeddings * 2)
    assert np.abs(to_numpy(task(inputs)) - before).max() > 1e-3


def test_remat_is_the_same_model():
    """`test_training_gradient_checkpointing`."""
    task, inputs = make_task("AlbertForMultipleChoice"), None
    inputs = make_inputs("AlbertForMultipleChoice")
    backbone = AlbertBackbone(**SIZES, remat=True)
    again = AlbertMultipleChoice(backbone)
    again.set_weights(task.get_weights())
    plain = make_task("AlbertForMultipleChoice", dropout=0.0)
    plain.set_weights(task.get_weights())

    def weigh(outputs):
        return keras.ops.sum(outputs * keras.ops.arange(CHOICES, dtype="float32"))

    for a, b in zip(
        gradients(plain, weigh, inputs)[1],
        gradients(again, weigh, inputs)[1],
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        ({"num_classes": 1}, [0.5, -1.0]),  # regression
        ({"num_classes": 3}, [0, 2]),  # single label
        ({"num_classes": 3, "activation": "sigmoid"}, [[1, 0, 1], [0, 0, 0]]),
    ],
    ids=["regression", "single_label", "multi_label"],
)
def test_problem_types(arguments, targets):
    task = make_task("AlbertForSequenceClassification", **arguments)
    history = task.fit(make_inputs(), np.array(targets), verbose=0).history
    assert np.isfinite(history["loss"]).all()
    shape = (BATCH, arguments["num_classes"])
    assert task.predict(make_inputs(), verbose=0).shape == shape


def test_mismatched_shapes(tmp_path):
    """`test_load_with_mismatched_shapes`: another head is new, another body refused."""
    task = make_task("AlbertForSequenceClassification")
    task.save_to_preset(tmp_path / "preset")
    other = AlbertClassifier.from_preset(tmp_path / "preset", num_classes=42)
    assert other.predict(make_inputs(), verbose=0).shape == (BATCH, 42)
    np.testing.assert_array_equal(
        to_numpy(other.backbone.token_embedding.embeddings.value),
        to_numpy(task.backbone.token_embedding.embeddings.value),
    )
    with pytest.raises(ValueError, match=r"vocabulary_size|shape"):
        AlbertBackbone.from_preset(tmp_path / "preset", vocabulary_size=10)
