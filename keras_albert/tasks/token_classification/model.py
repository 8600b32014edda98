"""Tags for words, and the entities that they mean."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.named_classes import NamedClasses, count_classes
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.base.unused_pooler import IdlePooler
from keras_albert.tasks.token_classification.read_targets import (
    encode_spans,
    encode_tags,
    holds_spans,
    learn_tags,
    read_tag_numbers,
    read_tag_rows,
)
from keras_albert.tasks.token_classification.tag import WordAnswers
from keras_albert.text.token_classification.preprocessor import (
    AlbertTokenClassifierPreprocessor,
)
from keras_albert.text.token_classification.tag_schemes import Scheme, check_scheme


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifier(
    IdlePooler, WordAnswers, NamedClasses, AlbertTask, keras_hub.models.Task
):
    """Tag words, and find the entities in texts.

    It trains on words with a tag each, or on raw texts with their entities in
    characters, and reads both. Documents of any length are read in overlapping
    windows. A piece of a word that carries no tag, `[CLS]`, `[SEP]` and padding have
    weight 0: no loss, and no part in the accuracy.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942); the head is that of
    [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 5.3.

    Args:
        backbone: An `AlbertBackbone`.
        num_classes: int or `None`. Number of tags. Defaults to `None`, the number of
            `labels`.
        preprocessor: An `AlbertTokenClassifierPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        labels: Sequence of string or `None`. The names of the tags, in the order of
            their numbers; `tag_names` makes them. Defaults to `None`: taken, sorted,
            from the first `fit` whose targets have names.
        scheme: string. What tags must follow: `"BIO"` (IOB2), `"IOB1"`, `"BIOES"`, or
            `"IO"`, bare labels, where anything goes. Defaults to `"auto"`: found at
            the first `fit`.
        dropout: float. Rate before the last layer. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If labels and `num_classes` disagree, the scheme is unknown, or the
            preprocessor makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertTokenClassifier,
        ...     AlbertTokenClassifierPreprocessor, AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> words = [["Ada", "lived", "in", "London"], ["London", "loved", "Ada"]] * 6
        >>> tags = [["B-person", "O", "O", "B-place"], ["B-place", "O", "B-person"]] * 6
        >>> vocabulary = train_vocabulary(map(" ".join, words), vocabulary_size=22)
        >>> tagger = AlbertTokenClassifier(
        ...     AlbertBackbone(
        ...         vocabulary_size=22, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     num_classes=3,
        ...     preprocessor=AlbertTokenClassifierPreprocessor(
        ...         AlbertTokenizer(vocabulary), sequence_length=32))
        >>> history = tagger.fit(words, tags, verbose=0)
        >>> for entity in tagger.tag("Ada lived in London."):
        ...     assert set(entity) == {"label", "score", "start", "end", "text"}
        >>> [len(row) for row in tagger.predict_tags(words[:2])]
        [4, 3]
    """

    preprocessor_cls = AlbertTokenClassifierPreprocessor

    output_places = "padding_mask"

    def __init__(
        self,
        backbone: AlbertBackbone,
        num_classes: int | None = None,
        preprocessor: AlbertTokenClassifierPreprocessor | None = None,
        labels: Sequence[str] | None = None,
        scheme: Scheme | str = "auto",
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        num_classes = count_classes(num_classes, labels)
        check_scheme(scheme)
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        # In float32 under any policy, as the classifier's.
        self.output_dense = keras.layers.Dense(
            num_classes,
            kernel_initializer=albert_initializer(),
            dtype="float32",
            name="logits",
        )

        # === Functional model ===
        inputs = backbone.input
        x = self.output_dropout(backbone(inputs)["sequence_output"])
        super().__init__(inputs=inputs, outputs=self.output_dense(x), **kwargs)

        # === Config ===
        self.num_classes = num_classes
        self.labels = None if labels is None else tuple(labels)
        self.scheme = scheme
        self.dropout = dropout

    def default_loss(self) -> keras.losses.Loss:
        """Give cross-entropy, the mean over tagged positions."""
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Give none: without weights they would count padding."""
        return []

    def default_weighted_metrics(self) -> list[keras.metrics.Metric]:
        """Give the accuracy over tagged positions."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    @property
    def target_dtype(self) -> str:
        """The dtype of tag numbers."""
        return "int32"

    def encode_targets(self, y: Any) -> Any:
        """Turn tags or entities into numbers, and check them.

        Args:
            y: For each text the tags of its words, names or numbers; or for raw texts
                its entities, a list of dicts of `start`, `end` and `label`.

        Returns:
            For each text an int32 array, or `SpanTags`.

        Raises:
            ValueError: If a tag is unknown, or impossible where it stands, or an
                entity is wrong; the message names row and word.
        """
        rows = read_tag_rows(y)
        labels, scheme = self.labels, self.known_scheme
        if labels is None:
            names, scheme = learn_tags(rows, self.scheme)
            labels = self.learn_labels(names)
        elif self.scheme == "auto" and scheme == "BIO" and not holds_spans(rows):
            # By the names of tags alone, BIO and IOB1 are alike.
            _, scheme = learn_tags(rows, "auto")
        if holds_spans(rows):
            targets = encode_spans(rows, labels or self.class_names, scheme)
        else:
            targets = encode_tags(rows, self.num_classes, labels, scheme)
        if self.labels is None and labels is not None:
            self.labels, self.scheme = labels, scheme
        return targets

    def encode_id_targets(self, y: Any) -> npt.NDArray[np.int32]:
        """Check the tags of ids: numbers `(examples, tokens)`, as the preprocessor's.

        Args:
            y: An integer array.

        Returns:
            The same, int32.

        Raises:
            ValueError: If it has another rank, or a number is out of range.
        """
        return read_tag_numbers(y, self.num_classes)

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            num_classes=self.num_classes,
            labels=None if self.labels is None else list(self.labels),
            scheme=self.scheme,
            dropout=self.dropout,
        )
        return config
