"""Classification and regression of texts and pairs of texts."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.named_classes import NamedClasses, count_classes
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.classification.classify import ClassAnswers
from keras_albert.tasks.classification.multi_labels import encode_label_sets, set_names
from keras_albert.tasks.inputs.class_weights import encode_class_weights
from keras_albert.tasks.inputs.labels import class_names, encode_classes, encode_scores
from keras_albert.text.classification.preprocessor import AlbertClassifierPreprocessor
from keras_albert.types import Activation


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertClassifier(
    NamedClasses, ClassAnswers, AlbertTask, keras_hub.models.TextClassifier
):
    """Assign texts, or pairs of texts, to classes, or give them a score.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), appendix A.4.

    Args:
        backbone: An `AlbertBackbone`.
        num_classes: int or `None`. Number of classes; `1` is a regression. Defaults
            to `None`, the number of `labels`.
        preprocessor: An `AlbertClassifierPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        labels: Sequence of string or `None`. The names of the classes, in the order
            of their numbers. Defaults to `None`: taken, sorted, from the first `fit`
            whose targets are names; "0", "1", ... until then.
        activation: string or callable. Applied to the outputs. `"sigmoid"` makes the
            classes labels of which a text has any number, each with a probability of
            its own. Defaults to `None`, which gives logits.
        dropout: float. Rate before the last layer. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If labels and `num_classes` disagree, or the preprocessor makes
            inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertClassifier, AlbertClassifierPreprocessor,
        ...     AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> texts = ["a fine film", "a dull film", "fine acting", "dull acting"] * 4
        >>> labels = ["good", "bad", "good", "bad"] * 4
        >>> vocabulary = train_vocabulary(texts, vocabulary_size=28)
        >>> classifier = AlbertClassifier(
        ...     AlbertBackbone(
        ...         vocabulary_size=28, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     num_classes=2,
        ...     preprocessor=AlbertClassifierPreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = classifier.fit(texts, labels, verbose=0)
        >>> classifier.classify("a fine film")["label"] in ("good", "bad")
        True
        >>> classifier.predict(texts, verbose=0).shape
        (16, 2)

        A text of any length is read in windows, and has one answer.

        >>> answer = classifier.classify_documents("a fine film " * 300)
        >>> answer["label"] in ("good", "bad")
        True
    """

    preprocessor_cls = AlbertClassifierPreprocessor

    def __init__(
        self,
        backbone: AlbertBackbone,
        num_classes: int | None = None,
        preprocessor: AlbertClassifierPreprocessor | None = None,
        labels: Sequence[str] | None = None,
        activation: Activation | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        num_classes = count_classes(num_classes, labels)
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        # In float32 under any policy: softmax and loss lose little, and classes that
        # are close stay apart.
        self.output_dense = keras.layers.Dense(
            num_classes,
            activation=activation,
            kernel_initializer=albert_initializer(),
            dtype="float32",
            name="logits",
        )

        # === Functional model ===
        inputs = backbone.input
        x = self.output_dropout(backbone(inputs)["pooled_output"])
        # Known to `compile`, which the constructor calls.
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)
        super().__init__(inputs=inputs, outputs=self.output_dense(x), **kwargs)

        # === Config ===
        self.labels = None if labels is None else tuple(labels)
        self.dropout = dropout

    @property
    def is_regression(self) -> bool:
        """Whether the model gives scores instead of classes."""
        return bool(self.num_classes == 1)

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have several of the classes, or none."""
        is_sigmoid = self.activation is keras.activations.sigmoid
        return bool(is_sigmoid and not self.is_regression)

    @property
    def gives_logits(self) -> bool:
        """Whether probabilities are the softmax of the outputs, not the outputs."""
        is_softmax = self.activation is keras.activations.softmax
        return not (is_softmax or self.is_multi_label)

    def default_loss(self) -> keras.losses.Loss:
        """Give cross-entropy for classes, squared error for scores."""
        if self.is_regression:
            return keras.losses.MeanSquaredError()
        if self.is_multi_label:
            return keras.losses.BinaryCrossentropy()
        return keras.losses.SparseCategoricalCrossentropy(from_logits=self.gives_logits)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Give accuracy for classes, the root of the squared error for scores."""
        if self.is_regression:
            return [keras.metrics.RootMeanSquaredError(name="rmse")]
        if self.is_multi_label:
            return [keras.metrics.BinaryAccuracy(name="accuracy")]
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    @property
    def target_dtype(self) -> str:
        """The dtype of class numbers, or of scores."""
        return "float32" if self.is_regression or self.is_multi_label else "int32"

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one example's target."""
        is_scored = self.is_regression or self.is_multi_label
        return (self.num_classes,) if is_scored else ()

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Turn class names, class numbers or scores into arrays, and check them.

        Args:
            y: One target for each example; a list of names, or zeros and ones, where
                it may have several.

        Returns:
            int32 class numbers `(examples,)`, or float32 scores `(examples, 1)`, or
            zeros and ones `(examples, num_classes)`.

        Raises:
            ValueError: If a target is wrong; the message names its row.
        """
        if self.is_regression:
            return encode_scores(y)
        names = set_names(y) if self.is_multi_label else class_names(y)
        labels = self.labels or self.learn_labels(names)
        encode: Any = encode_label_sets if self.is_multi_label else encode_classes
        targets: npt.NDArray[Any] = encode(y, self.num_classes, labels)
        self.labels = labels
        return targets

    def encode_class_weight(self, class_weight: Any, y: Any) -> dict[int, float]:
        """Turn weights of classes, by name or by number, into those of all classes."""
        if self.is_regression or self.is_multi_label:
            return super().encode_class_weight(class_weight, y)
        labels = self.labels or (() if y is None else class_names(y))
        return encode_class_weights(class_weight, self.num_classes, labels)

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            num_classes=self.num_classes,
            labels=None if self.labels is None else list(self.labels),
            activation=keras.activations.serialize(self.activation),
            dropout=self.dropout,
        )
        return config


# KerasHub's name for the same thing.
AlbertTextClassifier = AlbertClassifier
