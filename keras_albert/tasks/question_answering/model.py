"""Extractive question answering: answers are spans of a context."""

from collections.abc import Mapping
from typing import Any, Literal

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone import AlbertBackbone, backbone_inputs, run_encoder
from keras_albert.data.tables import Columns, first_outside, read_data
from keras_albert.layers import heads
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.question_answering import (
    MAX_STARTS,
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.tasks.heads import output_dense
from keras_albert.tasks.question_answering.answers import (
    best_null_threshold,
    question_scores,
)
from keras_albert.tasks.task import AlbertTask, TaskTraits
from keras_albert.text.packing import check_counts
from keras_albert.text.reading import TextBatch
from keras_albert.text.spans import (
    NO_ANSWER,
    SpanCandidates,
    SpanWindows,
    head_inputs,
    head_targets,
    is_invisible,
    rank_answers,
    read_answers,
    span_candidates,
)
from keras_albert.types import Mode
from keras_albert.utils.arguments import check_at_most, check_positive

# Candidates of each window, as in the reference; more if `top_k` is larger.
_N_BEST = 20


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertQuestionAnswerer(AlbertTask, keras_hub.models.Task):
    """Find the answer to a question in a context of any length, if there is one.

    `predict` returns the logits of each window of each context, and `answer` returns
    answers with their probabilities.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), appendix A.2.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertQuestionAnswererPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        head: string. `"independent"`: one logit for the start and one for the end, as
            in transformers and in the reference's models of SQuAD 1.1; or
            `"conditional"`: the end depends on the start, and a classifier predicts
            whether there is an answer, as in the reference's models of SQuAD 2.0.
            Defaults to `"independent"`.
        start_n_top: int. The number of starts that the conditional head considers in
            prediction, 100 at most. Defaults to `5`.
        end_n_top: int. The number of ends for each of them, 100 at most. Defaults to
            `5`.
        null_threshold: float or `None`. `answer` returns "no answer" if its log-odds
            are above this number (SQuAD 2.0's `null_score_diff_threshold`). Defaults
            to `None`, which always returns an answer. `fit` replaces `None` by `0.0`
            if a question has no answer; see `choose_null_threshold`.
        dropout: float. Rate before the last layer of the conditional head's
            classifier. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If `head` is unknown, a number is out of range, or the preprocessor
            makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import AlbertQuestionAnswerer
        >>> reader = AlbertQuestionAnswerer.from_preset("albert_tiny_en_uncased")
        >>> contexts = ["Ada lived in London.", "Ben lived in Paris."]
        >>> questions = ["Where did Ada live?", "Where did Ben live?"]
        >>> history = reader.fit(
        ...     (questions, contexts), [(13, "London"), (13, "Paris")], verbose=0)
        >>> answer = reader.answer("Where did Ada live?", contexts[0])
        >>> contexts[0][answer["start"] : answer["end"]] == answer["answer"]
        True
    """

    preprocessor_cls = AlbertQuestionAnswererPreprocessor
    traits = TaskTraits(
        columns=Columns(("question", "context"), "answers"),
        encodes_in_graph=False,
        set_by_targets=("null_threshold",),
        output_padding=heads.MASKED_LOGIT,
    )
    uses_pooler = False

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertQuestionAnswererPreprocessor | None = None,
        head: Literal["independent", "conditional"] = "independent",
        start_n_top: int = 5,
        end_n_top: int = 5,
        null_threshold: float | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        if head not in ("independent", "conditional"):
            msg = (
                "`head` must be 'independent' or 'conditional'. Received: "
                f"head={head!r}"
            )
            raise ValueError(msg)
        check_positive(start_n_top=start_n_top, end_n_top=end_n_top)
        check_at_most(MAX_STARTS, start_n_top=start_n_top, end_n_top=end_n_top)
        # Read by the setter of the preprocessor.
        self.head = head
        self.start_n_top = start_n_top
        self.backbone = backbone
        self.preprocessor = preprocessor
        if head == "conditional":
            self.span_head = heads.ConditionalSpanHead(
                dropout=dropout,
                layer_norm_epsilon=backbone.layer_norm_epsilon,
                dtype=backbone.dtype_policy,
                name="span_head",
            )
        else:
            self.span_logits = output_dense(2, "span_logits")

        inputs = dict(backbone.input)
        if head == "conditional":
            starts = keras.Input((None,), dtype="int32", name="start_positions")
            inputs["start_positions"] = starts
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.end_n_top = end_n_top
        self.null_threshold = null_threshold
        self.dropout = dropout

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        ids = backbone_inputs(self.backbone, inputs)
        tokens = run_encoder(self.backbone, ids, training, num_layers)
        masks = inputs["segment_ids"], inputs["padding_mask"]
        if self.head == "conditional":
            starts = inputs["start_positions"]
            return fast_call(self.span_head, tokens, *masks, starts, training=training)
        mask = heads.span_mask(*masks)[..., None]
        logits = heads.mask_logits(fast_call(self.span_logits, tokens), mask)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def compile(
        self, optimizer: Any = "auto", loss: Any = "auto", **kwargs: Any
    ) -> None:
        """Configure training; see `AutomaticCompile.compile`.

        The default loss is the mean of the losses of start and end, plus half of the
        loss of the conditional head's classifier.

        Example:
            >>> from keras_albert import AlbertQuestionAnswerer
            >>> reader = AlbertQuestionAnswerer.from_preset(
            ...     "albert_small_en_uncased_squad")
            >>> reader.compile(learning_rate=1e-4)
            >>> sorted(reader.loss)
            ['end_logits', 'start_logits']
        """
        if isinstance(loss, str) and loss == "auto":
            kwargs.setdefault("loss_weights", dict.fromkeys(self._targets(), 0.5))
        super().compile(optimizer, loss, **kwargs)

    def _targets(self) -> tuple[str, ...]:
        places = ("start_logits", "end_logits")
        return (*places, "answerability") if self.head == "conditional" else places

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        """Return cross-entropy for each output."""
        losses = keras.losses
        places = losses.SparseCategoricalCrossentropy(from_logits=True)
        classes = losses.BinaryCrossentropy(from_logits=True)
        return {
            name: classes if name == "answerability" else places
            for name in self._targets()
        }

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Return accuracy for each output."""
        metrics = keras.metrics
        return {
            name: [
                metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
                if name == "answerability"
                else metrics.SparseCategoricalAccuracy(name="accuracy")
            ]
            for name in self._targets()
        }

    @property
    def _num_starts(self) -> int | None:
        return self.start_n_top if self.head == "conditional" else None

    @property
    def preprocessor(self) -> Any:
        """The preprocessor, which makes the inputs and targets of the head."""
        return getattr(self, "_span_preprocessor", None)

    @preprocessor.setter
    def preprocessor(self, preprocessor: Any) -> None:
        if preprocessor is not None:
            preprocessor.num_starts = self._num_starts
        self._span_preprocessor = preprocessor

    def encode_texts(self, *args: Any, **kwargs: Any) -> tuple[SpanWindows, bool]:
        """Tokenize raw input for the head; see `AlbertTask.encode`."""
        windows, batched = super().encode_texts(*args, **kwargs)
        # A reader with the other head may share the preprocessor.
        windows.num_starts = self._num_starts
        return windows, batched

    def encode_targets(self, y: Any) -> Any:
        """Read answers into lists; see `read_answers`."""
        return read_answers(y)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check input that is preprocessed already."""
        ids = super().read_ids(inputs)
        starts = read_start_positions(inputs)
        if starts is not None:
            check_places("start_positions", starts, ids["token_ids"].shape[1], -1)
            ids["start_positions"] = starts
        return head_inputs(ids, self._num_starts)

    def encode_id_targets(self, y: Any) -> dict[str, npt.NDArray[Any]]:
        """Read the targets of input that is preprocessed already."""
        return head_targets(read_span_targets(y, self._targets()), self._num_starts)

    def check_id_targets(self, ids: dict[str, Any], y: Any, mode: Mode) -> None:
        """Check that positions are inside their rows."""
        if y is not None:
            for name in ("start_logits", "end_logits"):
                check_places(name, y[name], ids["token_ids"].shape[1], 0)

    def learn_from_targets(self, y: Any) -> None:
        """Set `null_threshold` to 0 if it is `None` and a question has no answer."""
        if self.null_threshold is None and not all(y):
            self.null_threshold = 0.0

    def answer(
        self,
        question: Any,
        context: Any,
        top_k: int = 1,
        max_answer_length: int = 30,
        batch_size: int | None = None,
    ) -> Any:
        """Answer questions.

        Args:
            question: string, or a list of strings.
            context: string of any length, or a list of as many; one string for a list
                of questions is the context of all.
            top_k: int. The number of answers per question. Defaults to `1`.
            max_answer_length: int. The maximum number of tokens in an answer. Defaults
                to `30`.
            batch_size: int. Windows in a batch. Defaults to `None`, which means 32.

        Returns:
            For one question a dict of `answer`, `score`, a probability, `start` and
            `end`, where `context[start:end]` is the answer; for many questions a list
            of dicts. With `top_k` above 1 there is a list of dicts per question, the
            most likely first. "No answer" is an empty `answer` with `start` and `end`
            0. It is returned if its log-odds are above `null_threshold`, or if a
            context has no visible character, with the score 1.

        Raises:
            ValueError: If the model has no preprocessor, a number is below 1, or a row
                is invalid.

        Example:
            >>> from keras_albert import AlbertQuestionAnswerer
            >>> reader = AlbertQuestionAnswerer.from_preset(
            ...     "albert_small_en_uncased_squad")
            >>> context = "The bridge was opened in 1932 by the mayor, Anna Keller."
            >>> answer = reader.answer("When was it opened?", context)
            >>> answer["answer"], answer["start"]
            ('1932', 25)
        """
        check_positive(top_k=top_k, max_answer_length=max_answer_length)
        if isinstance(context, str) and isinstance(question, list | tuple):
            context = [context] * len(question)
        columns = self.require_preprocessor("answer").columns((question, context))
        questions, contexts = columns.columns
        if not contexts:
            return []
        self.untrained_head_warning.warn(self, "answer")
        is_blank = [is_invisible(text) for text in contexts]
        # A row needs a token; its answer does not count.
        read = [
            "." if blank else text
            for blank, text in zip(is_blank, contexts, strict=True)
        ]
        found = self._search(
            TextBatch((questions, read), columns.batched),
            *(max(top_k, _N_BEST), max_answer_length, batch_size),
        )
        answers = [
            [dict(NO_ANSWER)]
            if is_blank[row]
            else rank_answers(found, row, text, self.null_threshold)[:top_k]
            for row, text in enumerate(contexts)
        ]
        best = answers if top_k > 1 else [ranked[0] for ranked in answers]
        return best if columns.batched else best[0]

    def choose_null_threshold(
        self, x: Any, y: Any, max_answer_length: int = 30, batch_size: int | None = None
    ) -> float:
        """Choose `null_threshold` by the best F1 on validation questions.

        The questions should be neither training nor test questions.

        Args:
            x: Questions and contexts, as in `fit`.
            y: Their answers.
            max_answer_length: int. The maximum number of tokens in an answer. Defaults
                to `30`.
            batch_size: int. Windows in a batch. Defaults to `None`, which means 32.

        Returns:
            The threshold, which is also set on the model, and saved by
            `save_to_preset`.

        Raises:
            ValueError: If all questions have an answer, or none has one.

        Example:
            >>> from keras_albert import AlbertQuestionAnswerer
            >>> reader = AlbertQuestionAnswerer.from_preset(
            ...     "albert_small_en_uncased_squad")
            >>> questions = ["Who opened it?", "What is the height of the tower?"]
            >>> contexts = ["Ada opened the bridge in 1932.", "We had soup for lunch."]
            >>> threshold = reader.choose_null_threshold(
            ...     (questions, contexts), [(0, "Ada"), None])
            >>> reader.null_threshold == threshold
            True
        """
        answers = read_answers(y)
        preprocessor = self.require_preprocessor("choose_null_threshold")
        columns = preprocessor.columns(read_data(x, columns=self.traits.columns).x)
        contexts = columns.columns[1]
        check_counts(len(contexts), answers, None)
        has_answer = np.array([bool(row) for row in answers], bool)
        if has_answer.all() or not has_answer.any():
            raise ValueError(
                "A threshold needs questions with and without an answer. Received: "
                f"{has_answer.sum()} with and {(~has_answer).sum()} without."
            )
        found = self._search(columns, _N_BEST, max_answer_length, batch_size)
        f1 = [
            question_scores(given, [answer for _, answer in right])[1]
            for given, right in zip(found.best_texts(contexts), answers, strict=True)
        ]
        self.null_threshold = best_null_threshold(
            found.null_scores, np.array(f1), (~has_answer).astype(float)
        )
        return self.null_threshold

    def _search(
        self,
        columns: TextBatch,
        n_best: int,
        max_answer_length: int,
        batch_size: int | None,
    ) -> SpanCandidates:
        examples, _ = self.encode_texts("prediction", columns)
        outputs = self.predict(examples, batch_size, verbose=0)
        return span_candidates(
            outputs, examples, max_answer_length, n_best, self.end_n_top
        )


def read_start_positions(inputs: Mapping[str, Any]) -> npt.NDArray[Any] | None:
    """Read `start_positions` `(rows, starts)` of the conditional head, if any."""
    if inputs.get("start_positions") is None:
        return None
    starts = _numbers("start_positions", inputs["start_positions"], "iu", np.int32)
    return starts.reshape(len(starts), -1)


def read_span_targets(y: Any, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Read the targets of rows of ids."""
    if not isinstance(y, Mapping) or not set(names) <= set(y):
        received = sorted(y) if isinstance(y, Mapping) else type(y).__name__
        raise TypeError(
            f"The targets of ids must be a dict of {', '.join(names)}, as the "
            f"preprocessor returns them. Received: {received}"
        )
    targets = {}
    for name in names:
        is_place = name.endswith("_logits")
        kinds, dtype = ("iu", np.int32) if is_place else ("iufb", np.float32)
        targets[name] = _numbers(name, y[name], kinds, dtype).reshape(-1)
    return targets


def check_places(name: str, places: npt.NDArray[Any], length: int, least: int) -> None:
    """Check that positions are inside of their rows."""
    if (row := first_outside(places, length, least)) is not None:
        raise ValueError(
            f"Row {row} of `{name}` is {places[row].tolist()}, but its tokens have the "
            f"places 0 to {length - 1}. Pass 0, the place of [CLS], where the row does "
            "not hold the answer."
        )


def _numbers(name: str, values: Any, kinds: str, dtype: Any) -> npt.NDArray[Any]:
    array = np.asarray(keras.ops.convert_to_numpy(values))
    if array.ndim not in (1, 2) or array.dtype.kind not in kinds:
        raise ValueError(
            f"`{name}` must be an array with one number per row, as the preprocessor "
            f"returns it. Received: {array.dtype} {array.shape}"
        )
    return array.astype(dtype)
