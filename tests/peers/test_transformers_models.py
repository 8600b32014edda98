"""What transformers' tests of ALBERT's models assert, of our classes.

The file is `tests/models/albert/test_modeling_albert.py` of transformers 5, with the
mixins that it runs (`ModelTesterMixin`, `PipelineTesterMixin`, `ConfigTester`); sizes
are those of its `AlbertModelTester`. That the numbers are transformers' own, outputs
and gradients, is held by `tests/backbone/test_parity.py` and
`tests/conversion/transformers/test_tasks.py`; states and scores of layers, and remat,
by `tests/layers/test_shared_transformer_encoder.py`; configs, sizes of heads and kinds
of problems, what `test_save_load`, `test_determinism`, `test_batching_equivalence` and
`test_training` ask of each class, by `tests/backbone` and `tests/tasks`.

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

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertMaskedLM, AlbertMultipleChoice
from tests.compiled import gradients, to_numpy

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


def test_tied_weights():
    """`test_tied_weights_keys` and its siblings: embeddings exist once."""
    task, inputs = make_task("AlbertForMaskedLM"), make_inputs("AlbertForMaskedLM")
    shapes = [tuple(variable.shape) for variable in task.variables]
    assert shapes.count((VOCABULARY, 8)) == 1
    before = to_numpy(task(inputs))
    embeddings = task.backbone.token_embedding.embeddings
    embeddings.assign(embeddings * 2)
    assert np.abs(to_numpy(task(inputs)) - before).max() > 1e-3
