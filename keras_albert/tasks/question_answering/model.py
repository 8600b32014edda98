"""Answers to questions, as spans of a context."""

from typing import Any, Literal

import keras
import keras_hub
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.conditional_span_head import (
    MASKED_LOGIT,
    ConditionalSpanHead,
    mask_logits,
    span_mask,
)
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.base.unused_pooler import IdlePooler
from keras_albert.tasks.inputs.model_input import holds_ids
from keras_albert.tasks.question_answering.answer import Answering
from keras_albert.tasks.question_answering.head_inputs import (
    SpanInputs,
    head_inputs,
    head_targets,
)
from keras_albert.tasks.question_answering.preprocessed_inputs import (
    check_places,
    read_span_targets,
    read_start_positions,
)
from keras_albert.text.packing.examples import Examples
from keras_albert.text.question_answering.preprocessor import (
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.text.question_answering.read_targets import read_answers
from keras_albert.utils.arguments import check_positive


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertQuestionAnswerer(IdlePooler, Answering, AlbertTask, keras_hub.models.Task):
    """Find the answer to a question in a context of any length, or say there is none.

    `predict` gives the logits of each window of each context, `answer` what a person
    reads.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), appendix A.2.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertQuestionAnswererPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        head: string. `"independent"`: one logit each for start and end, as SQuAD v1's
            models and transformers' have; or `"conditional"`: the end depends on the
            start, and a classifier says whether there is an answer, as in the
            reference's models of SQuAD v2. Defaults to `"independent"`.
        start_n_top: int. Starts that the conditional head follows while it predicts.
            Defaults to `5`.
        end_n_top: int. Ends to consider for each of them. Defaults to `5`.
        null_threshold: float or `None`. `answer` says that there is none where the
            log-odds of that are above it. Defaults to `None`: it always answers,
            until `fit` has seen a question without an answer, which makes it `0.0`;
            see `choose_null_threshold`.
        dropout: float. Rate before the last layer of the conditional head's
            classifier. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If `head` is neither, a number is below 1, or the preprocessor
            makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertQuestionAnswerer,
        ...     AlbertQuestionAnswererPreprocessor, AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> contexts = ["Ada lived in London.", "Ben lived in Paris."] * 4
        >>> questions = ["Where did Ada live?", "Where did Ben live?"] * 4
        >>> vocabulary = train_vocabulary(contexts + questions, vocabulary_size=32)
        >>> reader = AlbertQuestionAnswerer(
        ...     AlbertBackbone(
        ...         vocabulary_size=32, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     AlbertQuestionAnswererPreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = reader.fit(
        ...     (questions, contexts), [(13, "London"), (13, "Paris")] * 4, verbose=0)
        >>> answer = reader.answer("Where did Ada live?", contexts[0])
        >>> contexts[0][answer["start"] : answer["end"]] == answer["answer"]
        True
    """

    preprocessor_cls = AlbertQuestionAnswererPreprocessor

    output_padding = MASKED_LOGIT

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
        _check_head(head)
        check_positive(start_n_top=start_n_top, end_n_top=end_n_top)
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        if head == "conditional":
            self.span_head = ConditionalSpanHead(
                dropout=dropout,
                layer_norm_epsilon=backbone.layer_norm_epsilon,
                dtype=backbone.dtype_policy,
                name="span_head",
            )
        else:
            # In float32 under any policy, so that places that are close stay apart.
            self.span_logits = keras.layers.Dense(
                2,
                kernel_initializer=albert_initializer(),
                dtype="float32",
                name="span_logits",
            )

        # === Functional model ===
        inputs = dict(backbone.input)
        tokens = backbone(inputs)["sequence_output"]
        masks = inputs["segment_ids"], inputs["padding_mask"]
        if head == "conditional":
            starts = keras.Input((None,), dtype="int32", name="start_positions")
            inputs["start_positions"] = starts
            outputs = self.span_head(tokens, *masks, starts)
        else:
            logits = self.span_logits(tokens)
            mask = span_mask(*masks)
            outputs = {
                "start_logits": mask_logits(logits[..., 0], mask),
                "end_logits": mask_logits(logits[..., 1], mask),
            }
        # Known to `compile`, which the constructor calls.
        self.head = head
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

        # === Config ===
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.null_threshold = null_threshold
        self.dropout = dropout

    def compile(
        self, optimizer: Any = "auto", loss: Any = "auto", **kwargs: Any
    ) -> None:
        """Configure training; see `AutomaticCompile.compile`.

        The default loss is the mean of those of start and end, and half of that of
        the conditional head's classifier on top.
        """
        if isinstance(loss, str) and loss == "auto":
            kwargs.setdefault("loss_weights", dict.fromkeys(self._targets(), 0.5))
        super().compile(optimizer, loss, **kwargs)

    def _targets(self) -> tuple[str, ...]:
        places = ("start_logits", "end_logits")
        return (*places, "answerability") if self.head == "conditional" else places

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        """Give cross-entropy for each output."""
        losses = keras.losses
        places = losses.SparseCategoricalCrossentropy(from_logits=True)
        classes = losses.BinaryCrossentropy(from_logits=True)
        return {
            name: classes if name == "answerability" else places
            for name in self._targets()
        }

    def default_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Give accuracy for each output."""
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

    def adapt_examples(self, examples: Examples) -> SpanInputs:
        """Give the head its inputs and targets."""
        return SpanInputs(examples, self._num_starts)

    def encode_targets(self, y: Any) -> Any:
        """Read answers into lists; see `read_answers`."""
        return read_answers(y)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read input that is preprocessed already, and check it."""
        ids = super().read_ids(inputs)
        starts = read_start_positions(inputs)
        if starts is not None:
            check_places("start_positions", starts, ids["token_ids"].shape[1], -1)
            ids["start_positions"] = starts
        return head_inputs(ids, self._num_starts)

    def encode_id_targets(self, y: Any) -> dict[str, npt.NDArray[Any]]:
        """Read the targets of input that is preprocessed already."""
        return head_targets(read_span_targets(y, self._targets()), self._num_starts)

    def check_id_targets(self, ids: dict[str, npt.NDArray[Any]], y: Any) -> None:
        """Find a place outside its row."""
        if y is not None:
            for name in ("start_logits", "end_logits"):
                check_places(name, y[name], ids["token_ids"].shape[1], 0)

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """Train; see `AlbertTask.fit`. Each question needs its context and answer.

        A question without an answer among `y` sets `null_threshold` to 0, if it is
        `None`.
        """
        if y is not None and not holds_ids(self, x):
            y = self.encode_targets(y)
            if self.null_threshold is None and not all(y):
                self.null_threshold = 0.0
        return super().fit(x, y, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            head=self.head,
            start_n_top=self.start_n_top,
            end_n_top=self.end_n_top,
            null_threshold=self.null_threshold,
            dropout=self.dropout,
        )
        return config


def _check_head(head: str) -> None:
    if head not in ("independent", "conditional"):
        msg = f"`head` is 'independent' or 'conditional'. Received: head={head!r}"
        raise ValueError(msg)
