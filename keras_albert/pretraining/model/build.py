"""Builds and compiles the model of a run: its loss and its optimizer."""

from typing import Any

import keras

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.pretraining.model.lamb import Lamb
from keras_albert.pretraining.settings.config import PretrainingConfig
from keras_albert.tasks.base.token_accuracy import TokenAccuracy
from keras_albert.tasks.masked_lm.model import AlbertMaskedLM
from keras_albert.tasks.masked_lm.pretrainer import AlbertPretrainer
from keras_albert.tasks.masked_lm.token_cross_entropy import TokenCrossEntropy
from keras_albert.tasks.optimizers.default_optimizer import NOT_DECAYED, adamw
from keras_albert.tasks.optimizers.warmup_schedule import WarmUpAndDecay
from keras_albert.text.masked_lm.preprocessor import AlbertMaskedLMPreprocessor
from keras_albert.text.masked_lm.pretrainer_preprocessor import (
    AlbertPretrainerPreprocessor,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer

# Paths of variables that AdamW updates instead of Muon, as it always does vectors.
_OUTSIDE_OF_BLOCKS = "^(?!.*encoder/)"


def build_pretrainer(
    config: PretrainingConfig,
    tokenizer: AlbertTokenizer,
    sequence_length: int,
    **backbone: Any,
) -> Any:
    """Build the task of a run, with random weights."""
    arguments: dict[str, Any] = {
        "vocabulary_size": tokenizer.vocabulary_size(),
        "max_sequence_length": sequence_length,
        **config.backbone_arguments,
        **backbone,
    }
    model = AlbertBackbone(**arguments)
    masks: dict[str, Any] = {
        "mask_selection_rate": config.masked,
        "mask_token_rate": config.mask_token,
        "random_token_rate": config.random_token,
        "max_ngram": config.max_ngram,
        "max_sequence_length": model.max_sequence_length,
    }
    if config.second_task == "none":
        return AlbertMaskedLM(model, AlbertMaskedLMPreprocessor(tokenizer, **masks))
    return AlbertPretrainer(model, AlbertPretrainerPreprocessor(tokenizer, **masks))


def compile_pretrainer(task: Any, config: PretrainingConfig) -> None:
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


def build_optimizer(config: PretrainingConfig) -> keras.optimizers.Optimizer:
    """Build the optimizer of a run."""
    several = config.accumulation_steps > 1
    schedule = WarmUpAndDecay(
        config.peak_learning_rate,
        config.steps,
        config.num_warmup_steps,
        power=config.decay_power,
        accumulation_steps=config.accumulation_steps,
    )
    arguments: dict[str, Any] = {
        "global_clipnorm": config.clip_norm or None,
        "gradient_accumulation_steps": config.accumulation_steps if several else None,
    }
    if config.ema_momentum:
        # Keras updates the average after every batch, and the weights after several.
        momentum = config.ema_momentum ** (1 / config.accumulation_steps)
        arguments |= {"use_ema": True, "ema_momentum": momentum}
    if config.optimizer == "lamb":
        optimizer = Lamb(
            schedule,
            decay_rate=config.weight_decay,
            beta_2=config.beta_2,
            **arguments,
        )
    elif config.optimizer == "muon":
        optimizer = keras.optimizers.Muon(
            schedule,
            weight_decay=config.weight_decay,
            adam_weight_decay=config.weight_decay,
            adam_beta_2=config.beta_2,
            exclude_layers=[_OUTSIDE_OF_BLOCKS],
            **arguments,
        )
        optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    else:
        optimizer = adamw(
            schedule, config.weight_decay, beta_2=config.beta_2, **arguments
        )
    # Keras would replace the weights by the average after each call of `fit`, and a run
    # consists of several.
    optimizer.finalize_variable_values = lambda variables: None
    if config.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer
