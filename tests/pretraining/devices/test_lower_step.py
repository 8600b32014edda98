"""The training step as a program for compilers of other machines."""

import keras
import numpy as np
import pytest

from benchmarks.lower_step import lower_training_step
from keras_albert import AlbertBackbone, AlbertPretrainer
from keras_albert.pretraining import PretrainingConfig
from keras_albert.pretraining.devices.choose import choose_devices
from keras_albert.pretraining.model.build import compile_pretrainer

BACKEND = keras.config.backend()
ROWS, LENGTH, SLOTS = 4, 16, 3


@pytest.fixture
def pretrainer():
    backbone = AlbertBackbone(
        vocabulary_size=50,
        num_layers=3,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        remat=True,
        unroll=False,
        dtype="mixed_bfloat16",
    )
    model = AlbertPretrainer(backbone)
    compile_pretrainer(
        model,
        # A rate at which three steps have an effect in bfloat16.
        PretrainingConfig(
            data="-", output="-", optimizer="lamb", learning_rate=0.05, warmup_steps=0
        ),
    )
    return model


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX lowers without running")
def test_the_step_is_all_of_it_with_static_shapes(pretrainer):
    lowered = lower_training_step(pretrainer, ROWS, LENGTH, SLOTS)
    text = lowered.as_text()
    assert f"tensor<{ROWS}x{LENGTH}x16xbf16>" in text
    assert "tensor<?" not in text
    memory = lowered.compile().memory_analysis()
    variables = pretrainer.variables + pretrainer.optimizer.variables
    state = sum(4 * int(np.prod(v.shape)) for v in variables)
    # The arguments include weights and both moments, and are donated to the step.
    assert memory.argument_size_in_bytes > state
    assert memory.alias_size_in_bytes >= state


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX lowers without running")
def test_the_devices_share_the_batch(pretrainer):
    import jax

    with pytest.raises(ValueError, match="2 devices cannot share 3 rows"):
        lower_training_step(pretrainer, 3, LENGTH, SLOTS, jax.devices() * 2)


@pytest.mark.skipif(BACKEND == "jax", reason="for the others")
def test_others_are_told_to_use_jax(pretrainer):
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax"):
        lower_training_step(pretrainer, ROWS, LENGTH, SLOTS)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="XLA under TensorFlow")
def test_the_step_compiles_under_xla(pretrainer):
    pretrainer.jit_compile = True
    devices = choose_devices("none")
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 50, (ROWS, LENGTH), "int32")
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "mask_positions": np.tile(np.arange(SLOTS, dtype="int32"), (ROWS, 1)),
    }
    y = {"masked_lm": ids[:, :SLOTS], "sentence_order": ids[:, 0] % 2}
    weights = keras.tree.map_structure(lambda a: np.ones(a.shape, "float32"), y)
    batch = (x, y, weights)
    devices.prepare(pretrainer, batch)
    data = devices.batches(iter([batch] * 3), batch)
    history = keras.Model.fit(
        pretrainer, data, steps_per_epoch=1, epochs=3, shuffle=False, verbose=0
    )
    losses = history.history["loss"]
    assert losses[0] - 0.01 > losses[-1] > 0
