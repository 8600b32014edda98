"""The settings of the published fine-tuning runs."""

import os
from dataclasses import dataclass, replace
from typing import Any, Literal

import keras

from keras_albert.backbone import AlbertBackbone
from keras_albert.tasks.optimizers import WarmUpAndDecay, adamw, scaled_learning_rate


@dataclass(frozen=True)
class Recipe:
    """The settings of one task.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), table 14, and the
    README of google-research/albert where it differs.

    Args:
        name: string. The task's name in lower case.
        learning_rate: float. The peak, after the warm-up.
        batch_size: int. Examples in a batch.
        steps: int. Number of batches.
        warmup_steps: int. Batches until the peak.
        max_sequence_length: int. Tokens in a row.
        dropout: float. Rate in the backbone. Defaults to `0.0`.
        head_dropout: float. Rate before the last layer. Defaults to `0.1`.
        starts_from: string or `None`. The task to start from with its fine-tuned
            weights. Defaults to `None`, the pretrained weights.

    Example:
        >>> from keras_albert.tasks.recipes import recipe
        >>> recipe("sst-2").batch_size
        32
    """

    name: str
    learning_rate: float
    batch_size: int
    steps: int
    warmup_steps: int
    max_sequence_length: int = 512
    dropout: float = 0.0
    head_dropout: float = 0.1
    starts_from: str | None = None

    def epochs(self, num_examples: int) -> int:
        """Return how many epochs make about the steps of the recipe, at least 1.

        Args:
            num_examples: int. Examples to train on.

        Example:
            >>> from keras_albert.tasks.recipes import recipe
            >>> recipe("sst-2").epochs(67349)
            10
        """
        return max(1, round(self.steps * self.batch_size / num_examples))

    def build(
        self, cls: Any, preset: str | os.PathLike[str], dtype: Any = None, **head: Any
    ) -> Any:
        """Build a task on pretrained weights, with the recipe's dropout and length.

        Args:
            cls: The class of the task, for instance `AlbertClassifier`.
            preset: See `from_preset` of the task.
            dtype: string or Keras dtype policy. Defaults to `None`, Keras' policy.
            **head: Other arguments of its constructor, for instance `labels`.

        Returns:
            The task, with a new head.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> from keras_albert.tasks.recipes import recipe
            >>> classifier = recipe("sst-2").build(
            ...     AlbertClassifier, "albert_tiny_en_uncased", num_classes=2)
            >>> classifier.num_classes
            2
        """
        backbone = AlbertBackbone.from_preset(
            preset, dropout=self.dropout, attention_dropout=self.dropout, dtype=dtype
        )
        preprocessor = cls.preprocessor_cls.from_preset(
            preset, max_sequence_length=self.max_sequence_length
        )
        head = {"dropout": self.head_dropout, **head}
        return cls(backbone, preprocessor=preprocessor, **head)

    def for_width(self, hidden_dim: int) -> "Recipe":
        """Return the recipe with a learning rate for models of this width.

        Models narrower than base need a higher rate than the published ones, by the
        same factor as the default optimizer.

        Args:
            hidden_dim: int. Width of the encoder.

        Example:
            >>> from keras_albert.tasks.recipes import recipe
            >>> recipe("sst-2").for_width(384).learning_rate
            4e-05
        """
        rate = scaled_learning_rate(self.learning_rate, hidden_dim)
        return replace(self, learning_rate=rate)

    def optimizer(self, total_steps: int | None = None) -> keras.optimizers.Optimizer:
        """Return the AdamW of the recipe: linear warm-up, then linear decay to zero.

        Args:
            total_steps: int or `None`. Number of batches if it differs from the
                recipe's; the share of the warm-up stays. Defaults to `None`.

        Example:
            >>> from keras_albert.tasks.recipes import recipe
            >>> optimizer = recipe("sst-2").optimizer(total_steps=100)
            >>> optimizer.weight_decay
            0.01
        """
        total = total_steps or self.steps
        warmup = max(1, round(total * self.warmup_steps / self.steps))
        return adamw(WarmUpAndDecay(self.learning_rate, total, warmup))


_TABLE = (
    Recipe("cola", 1e-5, 16, 5336, 320),
    Recipe("sts-b", 2e-5, 16, 3598, 214, starts_from="mnli"),
    Recipe("sst-2", 1e-5, 32, 20935, 1256),
    Recipe("mnli", 3e-5, 128, 10000, 1000),
    Recipe("qnli", 1e-5, 32, 33112, 1986),
    Recipe("qqp", 5e-5, 128, 14000, 1000, dropout=0.1),
    Recipe("rte", 3e-5, 32, 800, 200, dropout=0.1, starts_from="mnli"),
    Recipe("mrpc", 2e-5, 32, 800, 200, starts_from="mnli"),
    Recipe("wnli", 2e-5, 16, 2000, 250, dropout=0.1),
    Recipe("squad-1.1", 5e-5, 48, 3649, 365, 384),
    Recipe("squad-2.0", 3e-5, 48, 8144, 814),
    Recipe("race", 2e-5, 32, 12000, 1000, dropout=0.1),
)
_BY_NAME = {row.name: row for row in _TABLE}

# Changes for the second release, in the README of the reference.
_V2_OVERRIDES = {"race": {"learning_rate": 1e-5, "dropout": 0.0}}

RECIPE_NAMES = tuple(_BY_NAME)


def recipe(name: str, version: Literal["v1", "v2"] = "v2") -> Recipe:
    """Return the recipe of a task.

    Args:
        name: string. One of `RECIPE_NAMES`, in any case.
        version: string. The release of the weights, `"v1"` or `"v2"`. With the settings
            of v1, RACE diverges on v2. Defaults to `"v2"`.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: If the name or the version is unknown.

    Example:
        >>> from keras_albert.tasks.recipes import recipe
        >>> recipe("sst-2").learning_rate
        1e-05
    """
    found = _BY_NAME.get(name.lower())
    if found is None:
        msg = f"There is no recipe {name!r}. Choose one of: {', '.join(RECIPE_NAMES)}."
        raise ValueError(msg)
    if version not in ("v1", "v2"):
        raise ValueError(
            f"`version` must be 'v1' or 'v2'. Received: version={version!r}"
        )
    overrides = _V2_OVERRIDES.get(found.name, {}) if version == "v2" else {}
    return replace(found, **overrides)  # type: ignore[arg-type]
