"""All settings of a pretraining run."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from keras_albert.utils.arguments import (
    argument_error,
    check_at_least,
    check_at_most,
    check_choice,
    check_finite_and_positive,
    check_kwargs,
    check_positive,
    check_rates,
    check_types,
)
from keras_albert.utils.reading import parse_json, reading
from keras_albert.utils.remote import fetch, output_path

if TYPE_CHECKING:
    from keras_albert.text.masking import MaskingRates

# The help of the command line reads the fields: it imports no Keras and no NumPy.
_SIZES = ("tiny", "small", "base", "large", "xlarge", "xxlarge")
# Arguments that the run sets: how it computes, and what depends on the data.
_OF_THE_RUN = {
    *("name", "trainable", "dtype", "remat", "unroll", "seed"),
    "vocabulary_size",
}

_not_negative = partial(check_at_least, 0)


def _one_of(*choices: str) -> Callable[..., None]:
    return partial(check_choice, choices)


def _setting(
    default: Any,
    check: Callable[..., None] | None = None,
    stage: bool = False,
    changes: bool = False,
) -> Any:
    # A stage may set those with `stage`, which change no variable of the model; a
    # resumed run, those with `changes`: they move files, distribute work or save
    # memory, and another rate or clipping can help a run whose loss became infinite.
    metadata = {"check": check, "stage": stage, "changes": changes}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class PretrainingConfig:
    """The settings of `pretrain`, validated on construction.

    The defaults suit one device and batches of tens or a few hundred examples. For
    batches of thousands use `optimizer="lamb"`, whose default rate is the paper's
    0.00176 at 4,096, scaled by the square root of the batch size.

    Args:
        data: string. The directory that `keras-albert prepare` wrote; one in a remote
            storage, such as `gs://bucket/prepared`, is downloaded.
        output: string. The directory for the model; an interrupted run in it is
            resumed.
        size: string. "tiny", "small", "base", "large", "xlarge" or "xxlarge".
            Defaults to `"base"`.
        preset: string or `None`. A model to start from: a built-in name, a directory or
            a handle, with the vocabulary of the data; it determines the size. Defaults
            to `None`, random weights.
        backbone: dict. Arguments of `AlbertBackbone` that replace the values of
            the size or the preset. Defaults to `{}`.
        steps: int. Updates of the weights. Defaults to `125_000`.
        batch_size: int. Examples per update, on all devices together. Defaults to
            `64`.
        accumulation_steps: int. Parts of a batch that pass through the model one
            after the other, to save memory. Defaults to `1`.
        sequence_length: int or `None`. Tokens in a row. Defaults to `None`, the
            prepared length.
        stages: list of dict. Consecutive parts of the run with separate settings:
            `steps`, `batch_size`, `sequence_length`, `masked`, `max_ngram`,
            `min_layers`, and in `backbone` `num_layers`, since layers share their
            weights. `steps` is a number of updates or, as a float, a share of the
            run, rounded to a multiple of `log_every`; the last stage takes the
            remaining steps. Weights and the optimizer's state are passed on, and the
            schedule of the learning rate spans the whole run. Defaults to `()`, one
            stage.
        min_layers: int or `None`. Each update runs a number of layers drawn uniformly
            from `min_layers` to `num_layers`, so that the model is trained at all
            these depths; it is evaluated at `num_layers`. Defaults to `None`, always
            `num_layers`.
        optimizer: string. "adamw"; "lamb" for large batches; "muon", which updates the
            matrices of the shared block by Muon and everything else by AdamW.
            Defaults to `"adamw"`.
        learning_rate: float or `None`. The peak rate. Defaults to `None`: 0.25 /
            `hidden_dim` and at most 1e-3 for AdamW and Muon, 0.00176 *
            sqrt(`batch_size` / 4096) for Lamb.
        warmup_steps: int or `None`. Updates until the peak. Defaults to `None`, a
            twentieth of all.
        decay_power: float. The exponent of the rate's decay to zero: 1 is linear, 0 is
            constant. Defaults to `1.0`.
        weight_decay: float. Not of biases and LayerNorms. Defaults to `0.01`.
        beta_2: float. The decay of the mean of squared gradients. Defaults to `0.999`.
        ema_momentum: float. The decay of a moving average of the weights, which is
            evaluated and saved; with 0, the weights themselves are. Defaults to `0.0`.
        clip_norm: float. The maximum norm of all gradients together; 0 disables
            clipping. Defaults to `1.0`.
        precision: string. "float32", "mixed_bfloat16" or "mixed_float16". Defaults to
            `"float32"`.
        remat: bool. Recompute layers in the backward pass to save memory. Defaults
            to `False`.
        unroll: bool or `None`. Unroll the layers instead of looping over them.
            Defaults to `None`, depending on the backend.
        second_task: string. "sentence_order", "next_sentence" or "none", in addition to
            masked tokens. Defaults to `"sentence_order"`.
        masked: float. The fraction of the tokens to predict. Defaults to `0.15`.
        mask_token: float. The fraction of those that `[MASK]` replaces. Defaults to
            `0.8`.
        random_token: float. The fraction of those that a random token replaces.
            Defaults to `0.1`.
        max_ngram: int. The maximum number of adjacent words masked together. Defaults
            to `3`.
        distribution: string. The devices: "none", one; "data_parallel", all, each with
            a part of the batch; "model_parallel:4", on JAX, each copy of the model on
            4; "tpu", a TPU slice. Defaults to `"none"`.
        log_every: int. Updates that a row of the curves averages over, an "epoch" of
            the progress bar. Defaults to `100`.
        evaluate_every: int. Updates between evaluations, a multiple of `log_every`.
            Defaults to `1000`.
        checkpoint_every: int. Updates between checkpoints. Defaults to `1000`.
        evaluation_examples: int. The maximum number of held-out examples to evaluate
            on. Defaults to `4096`.
        seed: int. Determines weights, order, masks and dropout. Defaults to `0`.
        license: string or `None`. The license in the model card, a hub's id. Defaults
            to `None`, unknown.
        dataset: string or `None`. The texts in the model card, a hub's id. Defaults to
            `None`, texts that are not on a hub.

    Raises:
        TypeError: If a setting has the wrong type.
        ValueError: If one is out of range, or two contradict each other.

    Example:
        >>> from keras_albert.pretraining import PretrainingConfig
        >>> config = PretrainingConfig(
        ...     data="prepared", output="run", size="tiny", batch_size=1024,
        ...     optimizer="lamb")
        >>> config.peak_learning_rate
        0.00088
        >>> config.backbone_arguments["hidden_dim"]
        256
    """

    data: str = field(metadata={"changes": True})
    output: str = field(metadata={"changes": True})
    size: str = _setting("base", _one_of(*_SIZES))
    preset: str | None = None
    backbone: Mapping[str, Any] = field(default_factory=dict)
    steps: int = _setting(125_000, check_positive, stage=True)
    batch_size: int = _setting(64, check_positive, stage=True)
    accumulation_steps: int = _setting(1, check_positive)
    sequence_length: int | None = _setting(None, partial(check_at_least, 8), stage=True)
    stages: tuple[Mapping[str, Any], ...] = ()
    min_layers: int | None = _setting(None, stage=True)
    optimizer: str = _setting("adamw", _one_of("adamw", "lamb", "muon"))
    learning_rate: float | None = _setting(
        None, check_finite_and_positive, changes=True
    )
    warmup_steps: int | None = _setting(None, _not_negative)
    decay_power: float = 1.0
    weight_decay: float = _setting(0.01, check_rates)
    beta_2: float = _setting(0.999, check_rates)
    ema_momentum: float = _setting(0.0, check_rates)
    clip_norm: float = _setting(1.0, changes=True)
    precision: str = _setting(
        "float32", _one_of("float32", "mixed_bfloat16", "mixed_float16")
    )
    remat: bool = _setting(False, changes=True)
    unroll: bool | None = _setting(None, changes=True)
    second_task: str = _setting(
        "sentence_order", _one_of("sentence_order", "next_sentence", "none")
    )
    masked: float = _setting(0.15, check_finite_and_positive, stage=True)
    mask_token: float = _setting(0.8, check_rates)
    random_token: float = _setting(0.1, check_rates)
    max_ngram: int = _setting(3, stage=True)
    distribution: str = _setting("none", changes=True)
    log_every: int = _setting(100, check_positive)
    evaluate_every: int = _setting(1000, check_positive)
    checkpoint_every: int = _setting(1000, check_positive, changes=True)
    evaluation_examples: int = _setting(4096, check_positive)
    seed: int = _setting(0, _not_negative)
    license: str | None = _setting(None, changes=True)
    dataset: str | None = _setting(None, changes=True)

    def __post_init__(self) -> None:
        stages: Any = self.stages
        if isinstance(stages, list):
            object.__setattr__(self, "stages", tuple(stages))
        check_types(self)
        for name in ("data", "output"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` is empty. Pass a directory.")
            output_path(getattr(self, name))
        for each in fields(self):
            check, value = each.metadata.get("check"), getattr(self, each.name)
            if check is not None and value is not None:
                check(**{each.name: value})
        self._check_backbone()
        self._check_multiple("batch_size", "accumulation_steps")
        self._check_multiple("evaluate_every", "log_every")
        check_at_most(self.steps, warmup_steps=self.num_warmup_steps)
        _ = self.masking_rates, self.stage_settings  # which raise if they are invalid

    def _check_backbone(self) -> None:
        from keras_albert.backbone import AlbertBackbone  # noqa: PLC0415  (Keras)

        for name in self.backbone:
            setting = "precision" if name == "dtype" else name
            if hasattr(self, setting):
                raise argument_error(
                    "backbone",
                    f"`backbone` contains `{name}`, which is a separate setting. Pass "
                    f"`{setting}` instead.",
                )
        check_kwargs(AlbertBackbone, self.backbone, inherited=())
        if self.min_layers is not None:
            arguments = self.backbone_arguments
            # With fewer layers, some groups would never run.
            check_at_least(arguments.get("num_groups", 1), min_layers=self.min_layers)
            check_at_most(arguments["num_layers"], min_layers=self.min_layers)

    def _check_multiple(self, name: str, of: str) -> None:
        value, unit = getattr(self, name), getattr(self, of)
        if value % unit:
            raise argument_error(
                name,
                f"`{name}` must be a multiple of `{of}`. Received: {name}={value}, "
                f"{of}={unit}",
            )

    @classmethod
    def from_file(cls, path: str | Path | None = None, **settings: Any) -> Self:
        """Read a TOML or JSON file.

        Args:
            path: string, path or `None`. The file, with settings at its top level and
                `backbone` as a table. Defaults to `None`, no file.
            **settings: Settings that override the file's; `backbone` is merged
                by name.

        Returns:
            The settings.

        Raises:
            OSError: If the file cannot be read.
            TypeError: If it has an unknown setting.
            ValueError: If it is neither TOML nor JSON.

        Example:
            >>> import pathlib
            >>> from keras_albert.pretraining import PretrainingConfig
            >>> _ = pathlib.Path("run.toml").write_text("batch_size = 64")
            >>> PretrainingConfig.from_file(
            ...     "run.toml", data="prepared", output="run").batch_size
            64
        """
        read = {} if path is None else _read(fetch(path))
        check_kwargs(cls, read, inherited=())
        missing = {"data", "output"} - set(read) - set(settings)
        if missing:
            names = " and ".join(f"`{name}`" for name in sorted(missing))
            msg = f"Missing directories: {names}. Pass them, or set them in the file."
            raise ValueError(msg)
        if "backbone" in read and "backbone" in settings:
            settings["backbone"] = {**read["backbone"], **settings["backbone"]}
        return cls(**(read | settings))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values.

        Example:
            >>> from keras_albert.pretraining import PretrainingConfig
            >>> PretrainingConfig(data="prepared", output="run").to_dict()["output"]
            'run'
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        stages = [dict(stage) for stage in self.stages]
        return values | {"backbone": dict(self.backbone), "stages": stages}

    @property
    def stage_settings(self) -> "tuple[PretrainingConfig, ...]":
        """The settings of each stage, where `steps` is the length of the stage."""
        if not self.stages:
            return (self,)
        found, done = [], 0
        for number, stage in enumerate(self.stages):
            is_last = number == len(self.stages) - 1
            where = f"`stages[{number}]`"
            settings = self._read_stage(stage, where, is_last)
            settings.setdefault("steps", self.steps - done)
            done += settings["steps"]
            if settings["steps"] < 1 or done > self.steps:
                raise ValueError(
                    f"{where} ends after steps={self.steps}. Leave at least one step "
                    f"for the last stage. Received: stages={list(self.stages)!r}"
                )
            if not is_last and settings["steps"] % self.log_every:
                raise ValueError(
                    f"{where} must end with a row of the curve. Make its `steps` a "
                    f"multiple of log_every={self.log_every}. Received: "
                    f"steps={settings['steps']}"
                )
            # With the same seed, each stage would start with the same examples.
            settings |= {"stages": (), "warmup_steps": 0, "seed": self.seed + number}
            try:
                found.append(replace(self, **settings))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{where}: {error}") from error
        return tuple(found)

    def _read_stage(
        self, stage: Mapping[str, Any], where: str, is_last: bool
    ) -> dict[str, Any]:
        settings = dict(stage)
        backbone = settings.pop("backbone", {})
        known = settings_that("stage")
        if unknown := sorted({*settings} - {*known} | {*backbone} - {"num_layers"}):
            raise ValueError(
                f"{where} cannot set {', '.join(unknown)}. A stage sets "
                f"{', '.join(known)}, and in `backbone` num_layers."
            )
        if "num_layers" in backbone and self.backbone.get("adapter_rank"):
            raise ValueError(
                f"{where} cannot set num_layers: with `adapter_rank` each layer has "
                "separate weights. Pass one `num_layers`, and `min_layers` for less."
            )
        if "steps" in settings if is_last else "steps" not in settings:
            raise ValueError(
                f"{where}: every stage except the last needs `steps`; the last one "
                f"gets the rest of steps={self.steps}. Received: {dict(stage)!r}"
            )
        share = settings.get("steps")
        if isinstance(share, float):
            rows = max(1, round(share * self.steps / self.log_every))
            settings["steps"] = rows * self.log_every
        return settings | {"backbone": {**self.backbone, **backbone}}

    @property
    def micro_batch_size(self) -> int:
        """Examples that pass through the model at once, on all devices together."""
        return self.batch_size // self.accumulation_steps

    @property
    def num_warmup_steps(self) -> int:
        """Updates until the peak of the learning rate."""
        asked = self.warmup_steps
        return max(1, self.steps // 20) if asked is None else asked

    @property
    def peak_learning_rate(self) -> float:
        """The highest learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.optimizer == "lamb":
            return float(0.00176 * (self.batch_size / 4096) ** 0.5)
        return float(min(1e-3, 0.25 / self.backbone_arguments["hidden_dim"]))

    @property
    def masking_rates(self) -> "MaskingRates":
        """The rates of masking."""
        from keras_albert.text.masking import MaskingRates  # noqa: PLC0415  (NumPy)

        return MaskingRates(
            mask_selection_rate=self.masked,
            mask_token_rate=self.mask_token,
            random_token_rate=self.random_token,
            max_ngram=self.max_ngram,
        )

    @property
    def backbone_arguments(self) -> dict[str, Any]:
        """Arguments of `AlbertBackbone`, except those that depend on the data."""
        from keras_albert.backbone import MODEL_SIZES  # noqa: PLC0415  (Keras)

        size = MODEL_SIZES[self.size]
        return {
            **(size if self.preset is None else backbone_of_preset(self.preset)),
            **self.backbone,
            "remat": self.remat,
            "unroll": self.unroll,
            "seed": self.seed,
            "dtype": self.precision,
        }


def _read(path: Path) -> Any:
    content = path.read_bytes()
    with reading(path, "Write settings as TOML, or as JSON if its name ends in .json."):
        is_json = path.suffix.lower() == ".json"
        return parse_json(content) if is_json else tomllib.loads(content.decode())


def settings_that(what: str) -> tuple[str, ...]:
    """Return the settings declared with "stage" or "changes"; see `_setting`."""
    declared = fields(PretrainingConfig)
    return tuple(each.name for each in declared if each.metadata.get(what))


@cache
def backbone_of_preset(preset: str) -> dict[str, Any]:
    """Read the architecture of a preset."""
    from keras_albert.backbone import AlbertBackbone  # noqa: PLC0415  (Keras)

    config = AlbertBackbone.from_preset(preset, load_weights=False).get_config()
    return {name: config[name] for name in config if name not in _OF_THE_RUN}
