"""The model that ALBERT is pretrained as: masked tokens and sentence order."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.token_accuracy import TokenAccuracy
from keras_albert.tasks.inputs.labels import encode_classes
from keras_albert.tasks.masked_lm.base import (
    MaskedLMTask,
    masked_lm_head,
    masked_lm_inputs,
    masked_lm_loss,
)
from keras_albert.text.masked_lm.pretrainer_preprocessor import (
    AlbertPretrainerPreprocessor,
)
from keras_albert.types import Texts


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainer(MaskedLMTask, keras_hub.models.Task):
    """Learn from pairs of consecutive segments: masked tokens and their order.

    `fit((first, second))` swaps half of the pairs and masks words, anew each epoch.
    The outputs are a dict of logits: `masked_lm` as of `AlbertMaskedLM`, and
    `sentence_order` `(examples, 2)`: in order, or swapped. Both losses count the same.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertPretrainerPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If the preprocessor makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertPretrainer, AlbertPretrainerPreprocessor,
        ...     AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> first = ["a fine film", "a dull film"] * 8
        >>> second = ["fine acting", "dull acting"] * 8
        >>> vocabulary = train_vocabulary(first + second, vocabulary_size=28)
        >>> pretrainer = AlbertPretrainer(
        ...     AlbertBackbone(
        ...         vocabulary_size=28, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     preprocessor=AlbertPretrainerPreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = pretrainer.fit((first, second), verbose=0)
        >>> 0 < pretrainer.score_order("a fine film", "fine acting") < 1
        True
    """

    preprocessor_cls = AlbertPretrainerPreprocessor

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertPretrainerPreprocessor | None = None,
        **kwargs: Any,
    ) -> None:
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(backbone)
        self.sentence_order_head = keras.layers.Dense(
            2,
            kernel_initializer=albert_initializer(),
            dtype="float32",
            name="sentence_order",
        )

        # === Functional model ===
        inputs = masked_lm_inputs(backbone)
        x = backbone(backbone.input)
        outputs = {
            "masked_lm": self.masked_lm_head(
                x["sequence_output"], inputs["mask_positions"]
            ),
            "sentence_order": self.sentence_order_head(x["pooled_output"]),
        }
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def token_scores(self, outputs: Any) -> Any:
        """Pick the scores of tokens."""
        return outputs["masked_lm"]

    def encode_id_targets(self, y: Any) -> dict[str, npt.NDArray[Any]]:
        """Read the targets of both outputs, and check them.

        Args:
            y: A dict of `masked_lm`, integers `(examples, slots)`, and
                `sentence_order`, 0 (in order) or 1 for each example.

        Returns:
            The same, as arrays.

        Raises:
            ValueError: If there is no such dict, or a target is wrong.
        """
        if not isinstance(y, Mapping) or set(y) != {"masked_lm", "sentence_order"}:
            given = sorted(y) if isinstance(y, Mapping) else type(y).__name__
            msg = (
                "Targets are a dict of 'masked_lm' and 'sentence_order'. Received: "
                f"{given}"
            )
            raise ValueError(msg)
        return {
            "masked_lm": self.encode_token_targets(y["masked_lm"]),
            "sentence_order": encode_classes(y["sentence_order"], 2, None),
        }

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        """Give cross-entropy for each output; their sum is the loss."""
        return {
            "masked_lm": masked_lm_loss(),
            "sentence_order": keras.losses.SparseCategoricalCrossentropy(
                from_logits=True
            ),
        }

    def default_metrics(self) -> None:
        """Give none: empty slots must not count."""

    def default_weighted_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Give the accuracy of each output, under the output's name."""
        return {name: [TokenAccuracy()] for name in ("masked_lm", "sentence_order")}

    def score_order(
        self, first: Texts, second: Texts, batch_size: int | None = None
    ) -> Any:
        """Say how likely it is that one text follows another.

        Args:
            first: A text, or many.
            second: A text, or as many: what may follow.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            float, the probability that `second` follows `first` and not the other way
            round; for many texts a float32 array `(examples,)`.

        Raises:
            ValueError: If the model has no preprocessor, or there are not as many
                first texts as second ones.
        """
        if self.preprocessor is None:
            msg = (
                "`score_order` reads texts, and this model has no preprocessor. Build "
                "it with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        columns, batched = self.preprocessor.columns((first, second))
        logits = self.predict(columns, batch_size, verbose=0)["sentence_order"]
        # The softmax of two classes, of which the first is "in order".
        scores = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
        return scores if batched else float(scores[0])
