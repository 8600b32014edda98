"""The pretraining model: masked tokens and sentence order."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.token_accuracy import TokenAccuracy
from keras_albert.tasks.inputs.labels import encode_classes
from keras_albert.tasks.masked_lm.base import (
    MaskedLMTask,
    masked_lm_head,
    masked_lm_inputs,
    masked_lm_loss,
)
from keras_albert.text.tasks.masked_lm import (
    AlbertPretrainerPreprocessor,
)
from keras_albert.types import Texts


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainer(MaskedLMTask, keras_hub.models.Task):
    """Learn from pairs of consecutive segments: masked tokens and their order.

    `fit((first, second))` swaps half of the pairs and masks words, differently in each
    epoch. The outputs are a dict of logits: `masked_lm` as in `AlbertMaskedLM`, and
    `sentence_order` `(examples, 2)`: in order, or swapped. Both losses have the same
    weight.

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
        """Return the scores of tokens."""
        return outputs["masked_lm"]

    def encode_id_targets(self, y: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check the targets of both outputs.

        Args:
            y: A dict of `masked_lm`, integers `(examples, slots)`, and
                `sentence_order`, 0 (in order) or 1 for each example.

        Returns:
            A dict of arrays.

        Raises:
            ValueError: If `y` is not such a dict, or a target is invalid.
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
        """Return cross-entropy for each output; the loss is their sum."""
        return {
            "masked_lm": masked_lm_loss(),
            "sentence_order": keras.losses.SparseCategoricalCrossentropy(
                from_logits=True
            ),
        }

    def default_metrics(self) -> None:
        """Return none: unused slots must not count."""

    def default_weighted_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Return the accuracy of each output, under the output's name."""
        return {name: [TokenAccuracy()] for name in ("masked_lm", "sentence_order")}

    def score_order(
        self, first: Texts, second: Texts, batch_size: int | None = None
    ) -> Any:
        """Return the probability that one text follows another.

        A preset of another task, such as `albert_tiny_en_uncased`, has no head for the
        order of sentences: the probabilities mean nothing before `fit`, and the first
        call warns.

        Args:
            first: A text, or many.
            second: A text, or as many: the possible continuations.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            float, the probability that the texts are in order; for many texts a float32
            array `(examples,)`.

        Raises:
            ValueError: If the model has no preprocessor, or the numbers of texts
                differ.
        """
        self.require_preprocessor("score_order")
        examples, batched = self.encode("prediction", (first, second))
        self.random_head.warn(self, "score_order", "sentence_order")
        logits = self.predict(examples, batch_size, verbose=0)["sentence_order"]
        # The softmax of two classes; the first is "in order".
        scores = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
        return scores if batched else float(scores[0])
