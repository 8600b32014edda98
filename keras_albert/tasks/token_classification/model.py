"""Token classification: tags of words, and the entities of texts."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone import AlbertBackbone, run_encoder
from keras_albert.data.labels import learn_labels
from keras_albert.data.tables import Columns
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.token_classification import (
    AlbertTokenClassifierPreprocessor,
)
from keras_albert.tasks import heads
from keras_albert.tasks.predict import softmax
from keras_albert.tasks.task import TaskTraits
from keras_albert.tasks.token_classification import read_targets
from keras_albert.text.tags import (
    SCHEMES,
    Scheme,
    Span,
    TaggedDocuments,
    describe_entity,
    find_entities,
    scheme_of_names,
    span_in_characters,
    spans_to_tags,
    tags_to_spans,
)
from keras_albert.utils.arguments import check_choice
from keras_albert.utils.environment import check_packages


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifier(heads.NamedClasses, keras_hub.models.Task):
    """Tag words, and find the entities in texts.

    It is trained on lists of words with a tag for each word, or on raw texts with the
    character spans of their entities. Documents of any length are read in overlapping
    windows. Pieces of words without a tag, `[CLS]`, `[SEP]` and padding have weight 0:
    they do not count in the loss and the accuracy.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942); for the head,
    [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 5.3.

    Args:
        backbone: An `AlbertBackbone`.
        num_classes: int or `None`. Number of tags. Defaults to `None`, the number of
            `labels`.
        preprocessor: An `AlbertTokenClassifierPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        labels: Sequence of string or `None`. The names of the tags, in the order of
            their numbers, as returned by `tag_names`. Defaults to `None`: the sorted
            names of the first `fit` whose targets have names.
        scheme: string. The scheme of the tags: `"BIO"` (IOB2), `"IOB1"`, `"BIOES"`, or
            `"IO"`, bare labels in any order. Defaults to `"auto"`: detected at the
            first `fit`.
        dropout: float. Rate before the last layer. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If labels and `num_classes` disagree, the scheme is unknown, or the
            preprocessor makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import AlbertTokenClassifier
        >>> words = [["Ada", "lived", "in", "London"], ["London", "loved", "Ada"]]
        >>> tags = [["B-person", "O", "O", "B-place"], ["B-place", "O", "B-person"]]
        >>> tagger = AlbertTokenClassifier.from_preset(
        ...     "albert_tiny_en_uncased", num_classes=3)
        >>> history = tagger.fit(words, tags, verbose=0)
        >>> [len(row) for row in tagger.predict_tags(words)]
        [4, 3]
    """

    preprocessor_cls = AlbertTokenClassifierPreprocessor
    traits = TaskTraits(
        columns=Columns(("tokens",), "ner_tags"),
        encodes_in_graph=False,
        set_by_targets=("labels", "scheme"),
        metrics_need_weights=True,
        output_mask="padding_mask",
    )
    uses_pooler = False

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
        num_classes = heads.count_classes(num_classes, labels)
        check_choice(("auto", *SCHEMES), scheme=scheme)
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = heads.output_dropout(backbone, dropout)
        self.output_dense = heads.output_dense(num_classes, "logits")

        inputs = backbone.input
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.num_classes = num_classes
        self.labels = None if labels is None else tuple(labels)
        self.scheme = scheme
        self.dropout = dropout

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        x = run_encoder(self.backbone, inputs, training, num_layers)
        x = fast_call(self.output_dropout, x, training=training)
        return fast_call(self.output_dense, x)

    def default_loss(self) -> keras.losses.Loss:
        """Return cross-entropy, the mean over tagged positions."""
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Return none: without weights they would count padding."""
        return []

    def default_weighted_metrics(self) -> list[keras.metrics.Metric]:
        """Return the accuracy over tagged positions."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    @property
    def target_dtype(self) -> str:
        """The dtype of tag numbers."""
        return "int32"

    def encode_targets(self, y: Any) -> Any:
        """Return an int32 array for the tags of each text, or its `SpanTags`."""
        rows = read_targets.read_tag_rows(y)
        labels, scheme = self.labels, self.known_scheme
        if labels is None:
            names, scheme = read_targets.learn_tags(rows, self.scheme)
            labels = learn_labels(names, self.num_classes, self.labels)
        elif (
            self.scheme == "auto"
            and scheme == "BIO"
            and not read_targets.holds_spans(rows)
        ):
            # By the names of tags alone, BIO and IOB1 are alike.
            _, scheme = read_targets.learn_tags(rows, "auto")
        if read_targets.holds_spans(rows):
            targets = read_targets.encode_spans(
                rows, labels or self.class_names, scheme
            )
        else:
            targets = read_targets.encode_tags(rows, self.num_classes, labels, scheme)
        if self.labels is None and labels is not None:
            self.labels, self.scheme = labels, scheme
        return targets

    def read_weights(self, sample_weight: Any) -> Any:
        """Read and check a weight for each text, or a list of one for each word."""
        return read_targets.read_word_weights(sample_weight)

    def encode_id_targets(self, y: Any) -> npt.NDArray[np.int32]:
        """Check the tags of ids; see `read_tag_numbers`."""
        return read_targets.read_tag_numbers(y, self.num_classes)

    @property
    def known_scheme(self) -> Scheme:
        """The scheme of the tags, given, detected, or by the names of the tags."""
        if self.scheme == "auto":
            return scheme_of_names(self.labels or ())
        return self.scheme  # type: ignore[return-value]

    def predict_words(
        self, x: Any, batch_size: int | None = None
    ) -> list[npt.NDArray[np.float32]]:
        """Compute the probabilities of each word's tags, merged over windows.

        Args:
            x: Words or raw texts.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            For each document an array `(words, num_classes)`; each row sums to 1. The
            probabilities of a word without pieces are equal.

        Raises:
            ValueError: If the model has no preprocessor.

        Example:
            >>> from keras_albert import AlbertTokenClassifier
            >>> tagger = AlbertTokenClassifier.from_preset(
            ...     "albert_small_en_uncased_ner")
            >>> rows = tagger.predict_words([["Maria", "moved", "to", "Toronto"]])
            >>> len(rows), rows[0].shape[0]
            (1, 4)
        """
        return self._read("predict_words", x, batch_size)[1]

    def predict_tags(self, x: Any, batch_size: int | None = None) -> list[list[str]]:
        """Tag each word.

        Args:
            x: Words or raw texts.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            For each document a tag per word, valid in the scheme of the model.

        Raises:
            ValueError: If the model has no preprocessor.

        Example:
            >>> from keras_albert import AlbertTokenClassifier
            >>> tagger = AlbertTokenClassifier.from_preset(
            ...     "albert_small_en_uncased_ner")
            >>> tagger.predict_tags([["Maria", "moved", "to", "Toronto"]])
            [['B-person', 'O', 'O', 'B-location']]
        """
        documents, probabilities = self._read("predict_tags", x, batch_size)
        if self.known_scheme == "IO":
            names = self.class_names
            return [[names[tag] for tag in row.argmax(-1)] for row in probabilities]
        return [
            spans_to_tags([span for span, _ in found], len(row), self.known_scheme)
            for row, found in zip(
                probabilities, self._entities(documents, probabilities), strict=True
            )
        ]

    def tag(self, x: Any, batch_size: int | None = None) -> Any:
        """Find the entities in texts.

        Args:
            x: A text, a tuple of words, or many: a list of texts, or of lists of words.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            For one text a list of dicts of `label`, `score` (the mean probability of
            its words' tags), `start`, `end` (characters of the given text, or of the
            words joined by spaces) and `text`; for words also `start_word` and
            `end_word`. For many texts a list of such lists.

        Raises:
            ValueError: If the model has no preprocessor.

        Example:
            >>> from keras_albert import AlbertTokenClassifier
            >>> tagger = AlbertTokenClassifier.from_preset(
            ...     "albert_small_en_uncased_ner")
            >>> for entity in tagger.tag("Maria Lopez moved from Madrid to Toronto."):
            ...     print(entity["label"], entity["text"], entity["start"])
            person Maria Lopez 0
            location Madrid 23
            location Toronto 33
        """
        columns = self.require_preprocessor("tag").columns(x)
        self.untrained_head_warning.warn(self, "tag")
        documents, probabilities = self._read("tag", columns, batch_size)
        answers = [
            [describe_entity(span, score, words) for span, score in found]
            for words, found in zip(
                documents.words, self._entities(documents, probabilities), strict=True
            )
        ]
        return answers if columns.batched else answers[0]

    def evaluate_entities(
        self, x: Any, y: Any, batch_size: int | None = None
    ) -> dict[str, Any]:
        """Compute precision, recall and F1 of whole entities with seqeval.

        An entity is correct if its start, its end and its label are correct.

        Args:
            x: Words or raw texts.
            y: Their tags, or their entities in characters, as in `fit`.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            A dict of `precision`, `recall`, `f1` and `support` over all entities, and
            `labels`, a dict with the same for each label.

        Raises:
            ImportError: If seqeval is not installed.
            ValueError: If targets are invalid; the message names the row.

        Example:
            >>> from keras_albert import AlbertTokenClassifier
            >>> tagger = AlbertTokenClassifier.from_preset(
            ...     "albert_small_en_uncased_ner")
            >>> words = [["Maria", "moved", "to", "Toronto"]]
            >>> tags = [["B-person", "O", "O", "B-location"]]
            >>> tagger.evaluate_entities(words, tags)["f1"]
            1.0
        """
        targets = self.encode_targets(y)
        documents, probabilities = self._read(
            "evaluate_entities", x, batch_size, targets
        )
        found = [
            [span for span, _ in row]
            for row in self._entities(documents, probabilities)
        ]
        if read_targets.holds_spans(targets):
            expected = read_targets.read_spans(read_targets.read_tag_rows(y))
            found = [
                [span_in_characters(span, words) for span in row]
                for row, words in zip(found, documents.words, strict=True)
            ]
        else:
            names = self.class_names
            read_targets.refuse_ignored(targets)
            expected = [tags_to_spans([names[tag] for tag in row]) for row in targets]
        return score_entities(expected, found)

    def _read(
        self, method: str, x: Any, batch_size: int | None, targets: Any = None
    ) -> tuple[TaggedDocuments, list[npt.NDArray[np.float32]]]:
        self.require_preprocessor(method)
        documents, _ = self.encode_texts("prediction", x, targets)
        logits = documents.merge(self.predict(documents, batch_size, verbose=0))
        return documents, [softmax(rows) for rows in logits]

    def _entities(
        self, documents: TaggedDocuments, probabilities: list[npt.NDArray[Any]]
    ) -> list[Any]:
        return [
            find_entities(rows, is_seen, self.class_names)
            for rows, is_seen in zip(probabilities, documents.seen_words(), strict=True)
        ]


def score_entities(
    expected: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]
) -> dict[str, Any]:
    """Score entities as CoNLL and seqeval do: bounds and label must both be right."""
    pairs = list(zip(expected, predicted, strict=True))
    ends = [
        max((span.end for row in pair for span in row), default=0) for pair in pairs
    ]
    rows = [
        [spans_to_tags(spans, end) for spans, end in zip(side, ends, strict=True)]
        for side in (expected, predicted)
    ]
    check_packages("Scoring entities", "seqeval", "seqeval")
    metrics = import_module("seqeval.metrics")
    if not any(ends):
        # seqeval cannot average over no labels.
        nothing = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
        return nothing | {"labels": {}}
    report = metrics.classification_report(*rows, output_dict=True, zero_division=0)
    scores = {name: _plain(row) for name, row in report.items()}
    averages = ("micro avg", "macro avg", "weighted avg")
    labels = {name: row for name, row in scores.items() if name not in averages}
    return scores["micro avg"] | {"labels": labels}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "precision": float(row["precision"]),
        "recall": float(row["recall"]),
        "f1": float(row["f1-score"]),
        "support": int(row["support"]),
    }
