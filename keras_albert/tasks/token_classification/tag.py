"""What a token classifier says of words, for a person to read."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.token_classification.entities import (
    describe_entity,
    find_entities,
    span_in_characters,
)
from keras_albert.tasks.token_classification.entity_scores import score_entities
from keras_albert.tasks.token_classification.read_targets import (
    holds_spans,
    read_spans,
    read_tag_rows,
)
from keras_albert.text.token_classification.examples import TaggedDocuments
from keras_albert.text.token_classification.tag_schemes import (
    Scheme,
    scheme_of_names,
    spans_to_tags,
    tags_to_spans,
)


class WordAnswers:
    """The answers of a token classifier, as a mixin that stands before the task."""

    preprocessor: Any
    scheme: Any
    labels: Any
    class_names: Any
    encode_targets: Any
    predict: Any

    @property
    def known_scheme(self) -> Scheme:
        """The scheme of the tags: as given, as found, or as their names have it."""
        if self.scheme == "auto":
            return scheme_of_names(self.labels or ())
        scheme: Scheme = self.scheme
        return scheme

    def predict_words(
        self, x: Any, batch_size: int | None = None
    ) -> list[npt.NDArray[np.float32]]:
        """Compute the probabilities of each word's tags, windows merged.

        Args:
            x: Words or raw texts.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For each document an array `(words, num_classes)` whose rows sum to 1. A
            word without any piece has equal probabilities.

        Raises:
            ValueError: If the model has no preprocessor.
        """
        return self._read(x, batch_size)[1]

    def predict_tags(self, x: Any, batch_size: int | None = None) -> list[list[str]]:
        """Tag each word.

        Args:
            x: Words or raw texts.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For each document a tag for each word, in the scheme of the model and
            possible in it.

        Raises:
            ValueError: If the model has no preprocessor.
        """
        documents, probabilities = self._read(x, batch_size)
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
        """Find the entities in texts, for a person to read.

        Args:
            x: A text, a tuple of words, or many: a list of texts, or of lists of words.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For one text a list of dicts of `label`, `score` (the mean probability of
            its words' tags), `start`, `end` (characters of the text as given, or of
            the words with a space between them) and `text`; for words also
            `start_word` and `end_word`. For many texts a list of such lists.

        Raises:
            ValueError: If the model has no preprocessor.
        """
        documents, probabilities = self._read(x, batch_size)
        answers = [
            [describe_entity(span, score, words) for span, score in found]
            for words, found in zip(
                documents.words, self._entities(documents, probabilities), strict=True
            )
        ]
        _, batched = self.preprocessor.columns(x)
        return answers if batched else answers[0]

    def evaluate_entities(
        self, x: Any, y: Any, batch_size: int | None = None
    ) -> dict[str, Any]:
        """Compute precision, recall and F1 of whole entities, by seqeval.

        An entity is right where its bounds and its label are.

        Args:
            x: Words or raw texts.
            y: Their tags, or their entities in characters, as in `fit`.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            A dict of `precision`, `recall`, `f1` and `support` over all entities, and
            `labels`, for each label a dict of the same.

        Raises:
            ImportError: If seqeval is not installed.
            ValueError: If targets are wrong; the message names the row.
        """
        targets = self.encode_targets(y)
        documents, probabilities = self._read(x, batch_size, targets)
        found = [
            [span for span, _ in row]
            for row in self._entities(documents, probabilities)
        ]
        if holds_spans(targets):
            expected = read_spans(read_tag_rows(y))
            found = [
                [span_in_characters(span, words) for span in row]
                for row, words in zip(found, documents.words, strict=True)
            ]
        else:
            names = self.class_names
            expected = [tags_to_spans([names[tag] for tag in row]) for row in targets]
        return score_entities(expected, found)

    def _read(
        self, x: Any, batch_size: int | None, targets: Any = None
    ) -> tuple[TaggedDocuments, list[npt.NDArray[np.float32]]]:
        if self.preprocessor is None:
            msg = (
                "Words are read by a preprocessor, and this model has none. Build it "
                "with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        documents, _ = self.preprocessor.encode(x, targets)
        logits = documents.merge(self.predict(x, batch_size, verbose=0))
        return documents, [_softmax(rows) for rows in logits]

    def _entities(
        self, documents: TaggedDocuments, probabilities: list[npt.NDArray[Any]]
    ) -> list[Any]:
        return [
            find_entities(rows, is_seen, self.class_names)
            for rows, is_seen in zip(probabilities, documents.seen_words(), strict=True)
        ]


def _softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))
