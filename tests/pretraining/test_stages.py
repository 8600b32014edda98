"""Stages, a moving average of the weights, and Muon."""

import signal

import keras
import numpy as np
import pytest

from keras_albert import AlbertPretrainer
from keras_albert.pretraining import PretrainingConfig, PretrainingData, pretrain
from keras_albert.pretraining.dataset import EVALUATION_MASKS, HeldOut, read_stages
from keras_albert.pretraining.model import (
    build_optimizer,
    build_pretrainer,
    compile_pretrainer,
)
from keras_albert.training.recorder import moving_averages
from keras_albert.training.run_folder import RunFolder
from tests.one_backend import on_one_backend_except
from tests.pretraining.same_run import assert_same_run, curve

pytestmark = on_one_backend_except(
    "test_stages_follow_each_other",
    "test_a_stop_changes_nothing[25]",
    "test_muon_updates_matrices_of_the_block_alone",
)

STAGES = [
    {"steps": 20, "batch_size": 8, "sequence_length": 16, "masked": 0.3},
    {"steps": 10, "backbone": {"num_layers": 1}},
    {},
]


@pytest.fixture(scope="module")
def staged(settings):
    """Settings with three stages and a moving average."""
    return settings | {
        "stages": STAGES,
        "steps": 40,
        "accumulation_steps": 1,
        "ema_momentum": 0.8,
        "evaluate_every": 10,
        "optimizer": "muon",
    }


@pytest.fixture(scope="module")
def staged_run(staged, tmp_path_factory):
    output = tmp_path_factory.mktemp("staged") / "run"
    scores = pretrain(PretrainingConfig(output=str(output), **staged), verbose=0)
    return RunFolder(output), scores


def test_stages_follow_each_other(staged, staged_run):
    folder, scores = staged_run
    stages = read_stages(PretrainingConfig(output="x", **staged))
    ends = [(stage.start, stage.end) for stage in stages]
    assert ends == [(0, 20), (20, 30), (30, 40)]
    x, y, _ = stages[0].batches().batch(0)
    assert x["token_ids"].shape == (8, 16)
    assert y["masked_lm"].shape[1] >= 4
    x, _, _ = stages[2].batches().batch(0)
    assert x["token_ids"].shape == (16, 24)
    # In another order than in the previous stage.
    later, _, _ = stages[1].batches().batch(0)
    assert not np.array_equal(later["token_ids"], x["token_ids"])
    rows = curve(folder)
    assert [row["step"] for row in rows] == [10, 20, 30, 40]
    assert rows[-1]["learning_rate"] == 0
    # The best weights are those of the last stage, at its best evaluation.
    assert scores["loss"] == pytest.approx(rows[-1]["val_loss"], rel=1e-4)
    preset = AlbertPretrainer.from_preset(folder.preset)
    assert preset.backbone.num_layers == 2
    assert preset.backbone.max_sequence_length == 24


def test_shares_follow_the_steps(settings):
    stages = [{"steps": 0.1}, {"steps": 0.64}, {}]
    for steps, expected in ((100, [10, 60, 30]), (1000, [100, 640, 260])):
        changes = {"stages": stages, "steps": steps}
        config = PretrainingConfig(output="x", **settings | changes)
        assert [each.steps for each in config.stage_settings] == expected


# In a stage, and at the end of one: the fourth batch is read ahead.
@pytest.mark.parametrize("moment", [14, 25])
def test_a_stop_changes_nothing(staged, staged_run, tmp_path, monkeypatch, moment):
    config = PretrainingConfig(output=str(tmp_path / "run"), **staged)
    from keras_albert.pretraining.dataset import PretrainingBatches

    make, seen = PretrainingBatches.batch, []

    def batch(self, *args):
        if self.shuffle:
            seen.append(args)
            if len(seen) == moment:
                signal.raise_signal(signal.SIGTERM)
        return make(self, *args)

    monkeypatch.setattr(PretrainingBatches, "batch", batch)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config, verbose=0)
    assert not RunFolder(tmp_path / "run").preset.exists()
    pretrain(config, verbose=0)
    assert_same_run(RunFolder(tmp_path / "run"), staged_run[0])


def test_evaluates_and_saves_the_average(settings, tmp_path):
    """After two updates, the average is half of the first and half of the second."""
    short = settings | {
        "accumulation_steps": 1,
        "ema_momentum": 0.5,
        "log_every": 1,
        "evaluate_every": 1,
        "steps": 2,
        "warmup_steps": 0,
        "decay_power": 0.0,
    }
    config = PretrainingConfig(output=str(tmp_path / "run"), **short)
    keras.utils.set_random_seed(config.seed)
    (stage,) = read_stages(config)
    task = build_pretrainer(config, stage.data.tokenizer, stage.sequence_length)
    compile_pretrainer(task, config)
    weights = []
    for number in range(2):
        x, y, sample_weight = stage.batches().batch(number)
        keras.Model.train_on_batch(task, x, y, sample_weight)
        weights.append([np.array(each.numpy()) for each in task.trainable_variables])
    averages = [each.numpy() for each in moving_averages(task.optimizer)]
    for first, second, average in zip(*weights, averages, strict=True):
        np.testing.assert_allclose(average, (first + second) / 2, atol=1e-6)


def test_muon_updates_matrices_of_the_block_alone(settings):
    config = PretrainingConfig(output="x", **settings | {"optimizer": "muon"})
    (stage,) = read_stages(config)
    task = build_pretrainer(config, stage.data.tokenizer, 24)
    optimizer = build_optimizer(config)
    optimizer.build(task.trainable_variables)
    matrices = [
        variable
        for variable in task.trainable_variables
        if variable.path.startswith("encoder/") and len(variable.shape) == 2
    ]
    assert len(matrices) == 6
    assert optimizer.name.startswith("muon")
    # AdamW has a second moment for each variable, Muon has none.
    velocities = [each for each in optimizer.variables if "velocity" in each.name]
    assert len(velocities) == len(task.trainable_variables) - len(matrices)


def test_bits_per_character_do_not_depend_on_the_vocabulary(prepared):
    data = PretrainingData(prepared, "held_out", rates=EVALUATION_MASKS)
    held_out = HeldOut.read(data, 99, 8, None)
    labels, weights = held_out.arrays[1]["masked_lm"], held_out.arrays[2]["masked_lm"]
    text = "".join(map(data.tokenizer.id_to_token, labels[weights > 0].tolist()))
    total_bits = 3.0 * held_out.num_masked / np.log(2)
    assert held_out.bits_per_character(3.0) == pytest.approx(total_bits / len(text))
    # Every masked token is replaced.
    x = held_out.arrays[0]
    masked = np.take_along_axis(x["token_ids"], x["mask_positions"], axis=1)
    assert (masked[weights > 0] == data.tokenizer.mask_token_id).all()


ADAPTERS = {"adapter_rank": 2}


def two(*more, **first):
    return {"stages": [*more, first, {}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (two(steps=5, optimizer="lamb"), "cannot set optimizer"),
        (
            two(steps=10, backbone={"hidden_dim": 8}),
            r"cannot set hidden_dim\. A stage sets .*num_layers",
        ),
        (
            two(steps=10, backbone={"num_layers": 2}) | {"backbone": ADAPTERS},
            "cannot set num_layers: with `adapter_rank`",
        ),
        (two(), "every stage except the last needs `steps`"),
        ({"stages": [{"steps": 10}, {"steps": 50}]}, "the last one gets the rest"),
        (two(steps=60), "ends after steps=60"),
        (two(steps=15), "multiple of log_every=10"),
        (two(steps=10, batch_size=0), r"stages\[0\]`: `batch_size"),
        (
            two(steps=10, backbone={"num_layers": 1}) | {"min_layers": 2},
            r"stages\[0\]`: `min_layers` must be at most 1\. Received",
        ),
    ],
)
def test_errors(settings, changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PretrainingConfig(output="x", **settings | changes)
