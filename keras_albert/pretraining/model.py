"""The model of a run: its start, its loss, its optimizer and its depths."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import keras
import numpy as np

from keras_albert.backbone import AlbertBackbone
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.masked_lm import (
    AlbertMaskedLMPreprocessor,
    AlbertPretrainerPreprocessor,
)
from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.tasks.compile import steps_at_depth
from keras_albert.tasks.losses_and_metrics import TokenAccuracy
from keras_albert.tasks.masked_lm import (
    AlbertMaskedLM,
    AlbertPretrainer,
    TokenCrossEntropy,
)
from keras_albert.tasks.optimizers import (
    NOT_DECAYED,
    AdamW,
    Lamb,
    WarmUpAndDecay,
    adamw,
)
from keras_albert.tasks.task import AlbertTask

# Paths of variables that AdamW updates instead of Muon, as it always does vectors.
_OUTSIDE_OF_BLOCKS = "^(?!.*encoder/)"


def build_pretrainer(
    config: PretrainingConfig,
    tokenizer: AlbertTokenizer,
    sequence_length: int,
    **backbone: Any,
) -> Any:
    """Build the task of a run; `sequence_length` is its number of positions."""
    arguments: dict[str, Any] = {
        "vocabulary_size": tokenizer.vocabulary_size(),
        "max_sequence_length": sequence_length,
        **config.backbone_arguments,
        **backbone,
    }
    model = AlbertBackbone(**arguments)
    masks = asdict(config.masking_rates)
    masks["max_sequence_length"] = model.max_sequence_length
    if config.second_task == "none":
        return AlbertMaskedLM(model, AlbertMaskedLMPreprocessor(tokenizer, **masks))
    return AlbertPretrainer(model, AlbertPretrainerPreprocessor(tokenizer, **masks))


def compile_pretrainer(task: AlbertTask, config: PretrainingConfig) -> None:
    """Compile a task, and create the optimizer's variables."""
    # Not the weighted mean, as weights are normalized over all batches of an update.
    names = list(task.output) if isinstance(task.output, dict) else None
    loss: Any = TokenCrossEntropy()
    metrics: Any = [TokenAccuracy("masked_lm_accuracy")]
    if names is not None:
        loss = {name: TokenCrossEntropy() for name in names}
        metrics = {name: [TokenAccuracy()] for name in names}
    task.compile(
        build_optimizer(config),
        loss,
        metrics=None,
        weighted_metrics=metrics,
        # `build_optimizer` does it, whatever the precision of the task.
        auto_scale_loss=False,
    )
    task.optimizer.build(task.trainable_variables)


class RunOptimizer:
    """An optimizer for several calls of `fit`, as a mixin."""

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """Keep the weights: Keras would set them to their average after each `fit`."""


def _of_run(cls: Any) -> Any:
    """Return a subclass of the same name, from which Keras names variables."""
    return type(cls.__name__, (RunOptimizer, cls), {})


_AdamW, _Lamb = _of_run(AdamW), _of_run(Lamb)
_Muon = _of_run(keras.optimizers.Muon)
_LossScale = _of_run(keras.optimizers.LossScaleOptimizer)


def build_optimizer(config: PretrainingConfig) -> keras.optimizers.Optimizer:
    """Build the optimizer of a run."""
    parts = config.accumulation_steps
    schedule = WarmUpAndDecay(
        *(config.peak_learning_rate, config.steps, config.num_warmup_steps),
        power=config.decay_power,
        accumulation_steps=parts,
    )
    arguments: dict[str, Any] = {
        "global_clipnorm": config.clip_norm or None,
        "gradient_accumulation_steps": parts if parts > 1 else None,
    }
    if config.ema_momentum:
        # Keras updates the average after every batch, and the weights after several.
        momentum = config.ema_momentum ** (1 / parts)
        arguments |= {"use_ema": True, "ema_momentum": momentum}
    # A loss scale sees the gradients first, and all processes must scale alike.
    scales = config.precision == "mixed_float16"
    if config.optimizer == "lamb":
        optimizer = (Lamb if scales else _Lamb)(
            schedule, decay_rate=config.weight_decay, beta_2=config.beta_2, **arguments
        )
    elif config.optimizer == "muon":
        decays = ("weight_decay", "adam_weight_decay")
        optimizer = (keras.optimizers.Muon if scales else _Muon)(
            schedule,
            adam_beta_2=config.beta_2,
            exclude_layers=[_OUTSIDE_OF_BLOCKS],
            **arguments | dict.fromkeys(decays, config.weight_decay),
        )
        optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    else:
        optimizer = adamw(
            schedule,
            config.weight_decay,
            beta_2=config.beta_2,
            cls=AdamW if scales else _AdamW,
            **arguments,
        )
    return _LossScale(optimizer) if scales else optimizer


def load_starting_weights(task: AlbertTask, preset: str) -> None:
    """Load the weights of a preset into a task."""
    # If the task has more positions, the preset's are repeated: what they encode about
    # neighbours applies there as well. Source: [Beltagy et al.,
    # 2020](https://arxiv.org/abs/2004.05150), section 5.
    start = type(task).from_preset(preset)
    if start.preprocessor.tokenizer.proto != task.preprocessor.tokenizer.proto:
        raise ValueError(
            f"{preset} has a different vocabulary from the data. Prepare the data with "
            f"that vocabulary: keras-albert prepare --vocabulary {preset}"
        )
    positions = task.backbone.embedding.position_embedding.position_embeddings
    pairs = [*zip(task.weights, start.weights, strict=True)]
    for number, (new, old) in enumerate(pairs):
        if new is positions:
            rows = keras.ops.convert_to_numpy(old)
            pairs[number] = new, np.resize(rows, (new.shape[0], rows.shape[1]))
    differ = [
        f"{new.path} is {tuple(old.shape)} in the preset and {tuple(new.shape)} in the "
        "run"
        for new, old in pairs
        if tuple(old.shape) != tuple(new.shape)
    ]
    if differ:
        raise ValueError(
            f"The weights of {preset} have different shapes: {'; '.join(differ)}. "
            "Leave out the settings of the backbone that change them."
        )
    for new, old in pairs:
        new.assign(old)


# Distinguishes these draws from the draws of batches and of dropout.
_DRAW = 2


def draw_depth(config: PretrainingConfig, step: int) -> int:
    """Draw the number of layers of a step, counted over the whole run."""
    generator = np.random.default_rng([config.seed, step, _DRAW])
    most = config.backbone_arguments["num_layers"]
    least = most if config.min_layers is None else config.min_layers
    return int(generator.integers(least, most, endpoint=True))


def train_at_depths(
    task: AlbertTask, depths: range, depth_of_batch: Callable[[], int]
) -> None:
    """Let each call of a task's training step run another number of layers."""
    functions = {}
    for depth in depths:
        # Made now: during an epoch, Keras keeps the weights on JAX, and a function on
        # several devices is made with their layout.
        with steps_at_depth(task, depth):
            task.make_train_function(force=True)
        functions[depth] = task.train_function

    def train(*args: Any) -> Any:
        depth = depth_of_batch()
        with steps_at_depth(task, depth):
            return functions[depth](*args)

    task.train_function = train
