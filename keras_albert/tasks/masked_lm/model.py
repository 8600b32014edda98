"""The masked language model."""

from typing import Any

import keras
import keras_hub
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.activations import serialize_activation
from keras_albert.tasks.base.token_accuracy import TokenAccuracy
from keras_albert.tasks.masked_lm.base import (
    MaskedLMTask,
    masked_lm_head,
    masked_lm_inputs,
    masked_lm_loss,
)
from keras_albert.text.tasks.masked_lm import AlbertMaskedLMPreprocessor
from keras_albert.types import Activation


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMaskedLM(MaskedLMTask, keras_hub.models.MaskedLM):
    """Predict masked tokens: train on texts alone, or fill in a `[MASK]`.

    `fit(texts)` and `evaluate(texts)` mask the words; masks differ from epoch to
    epoch, and are the same in each evaluation. `predict(texts)` masks nothing: it
    returns logits `(examples, slots, vocabulary_size)` for each `[MASK]` that is
    written in a text; the number of slots is a power of two, and empty ones are 0.
    Data sets and single batches are preprocessed like lists.

    Source: [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.1;
    masks of [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 4.1.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertMaskedLMPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        head_layer_norm_epsilon: float or `None`. The epsilon of the head's LayerNorm,
            1e-5 in KerasHub. Defaults to `None`, the backbone's.
        head_activation: string, callable or `None`. The activation of the head;
            ELECTRA and KerasHub's BERT have one of their own. Defaults to `None`, the
            backbone's.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If the preprocessor makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertMaskedLM, AlbertMaskedLMPreprocessor,
        ...     AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> texts = ["a fine film", "a dull film", "fine acting", "dull acting"] * 4
        >>> vocabulary = train_vocabulary(texts, vocabulary_size=28)
        >>> masked_lm = AlbertMaskedLM(
        ...     AlbertBackbone(
        ...         vocabulary_size=28, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     preprocessor=AlbertMaskedLMPreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = masked_lm.fit(texts, verbose=0)
        >>> answers = masked_lm.fill_mask("a [MASK] film", top_k=2)
        >>> [sorted(answer) for answer in answers]  # doctest: +NORMALIZE_WHITESPACE
        [['score', 'sequence', 'token', 'token_str'],
         ['score', 'sequence', 'token', 'token_str']]
    """

    preprocessor_cls = AlbertMaskedLMPreprocessor

    uses_pooler = False

    metrics_need_weights = True

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertMaskedLMPreprocessor | None = None,
        head_layer_norm_epsilon: float | None = None,
        head_activation: Activation | None = None,
        **kwargs: Any,
    ) -> None:
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(
            backbone, head_layer_norm_epsilon, head_activation
        )

        # === Functional model ===
        inputs = masked_lm_inputs(backbone)
        x = backbone(backbone.input)["sequence_output"]
        scores = self.masked_lm_head(x, inputs["mask_positions"])
        super().__init__(inputs=inputs, outputs=scores, **kwargs)

        # === Config ===
        self.head_layer_norm_epsilon = head_layer_norm_epsilon
        self.head_activation = head_activation

    def token_scores(self, outputs: Any) -> Any:
        """Return the only output."""
        return outputs

    def encode_id_targets(self, y: Any) -> npt.NDArray[Any]:
        """Read the ids at `mask_positions`; see `encode_token_targets`."""
        return self.encode_token_targets(y)

    def default_loss(self) -> keras.losses.Loss:
        """Return cross-entropy, averaged over the masked tokens of a batch."""
        return masked_lm_loss()

    def default_metrics(self) -> None:
        """Return none: unused slots must not count."""

    def default_weighted_metrics(self) -> list[keras.metrics.Metric]:
        """Return the accuracy on masked tokens."""
        return [TokenAccuracy()]

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            head_layer_norm_epsilon=self.head_layer_norm_epsilon,
            head_activation=self.head_activation
            and serialize_activation(self.head_activation),
        )
        return config
