"""Masked language modeling, and pretraining with sentence order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone, backbone_inputs, run_encoder
from keras_albert.data.batches import LengthBatches
from keras_albert.data.labels import encode_classes
from keras_albert.data.tables import first_outside, read_positions
from keras_albert.layers.heads import MaskedLMHead
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.masked_lm import (
    AlbertMaskedLMPreprocessor,
    AlbertPretrainerPreprocessor,
)
from keras_albert.tasks.heads import output_dense
from keras_albert.tasks.losses_and_metrics import TokenAccuracy
from keras_albert.tasks.predict import outputs_of, softmax
from keras_albert.tasks.task import AlbertTask, TaskTraits
from keras_albert.text.masking import WrittenMasks
from keras_albert.types import Activation, Int64Array, IntArray, Tensor, Texts
from keras_albert.utils.arguments import check_positive


class MaskedLMTask(AlbertTask):
    """Base class of tasks that predict masked tokens."""

    is_self_supervised = True
    traits = TaskTraits(
        ids_have_targets=False,
        # Position 0, of `[CLS]`, is never masked.
        output_mask="mask_positions",
        shared_head_layers=("masked_lm_head",),
    )

    @property
    def target_dtype(self) -> str:
        """The dtype of token ids."""
        return "int32"

    def token_scores(self, outputs: Any) -> Any:
        """Return the scores of tokens, `(batch, slots, vocabulary_size)`."""
        raise NotImplementedError

    def default_metrics(self) -> None:
        """Return none: unused slots must not count."""

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Raise: targets of texts come from the texts."""
        raise ValueError(
            f"{type(self).__name__} makes its targets from the texts. Received: y="
            f"{str(y)[:80]!r}. Leave them out. Pairs are `fit((first, second))`, or "
            "a data set of `((first, second),)`."
        )

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check ids and `mask_positions`."""
        return read_positions(super().read_ids(inputs), inputs)

    def encode_token_targets(self, y: Any) -> npt.NDArray[Any]:
        """Read and check the original ids at `mask_positions`, `(examples, slots)`."""
        targets = np.asarray(y)
        if targets.ndim != 2 or targets.dtype.kind not in "iu":
            raise ValueError(
                "Targets are the original ids at `mask_positions`, integers "
                f"(examples, slots). Received: {targets.dtype} {targets.shape}"
            )
        limit = self.backbone.vocabulary_size
        if (row := first_outside(targets, limit)) is not None:
            raise ValueError(
                f"Row {row} of the targets contains an id outside 0 to "
                f"{limit - 1}. Use the vocabulary of the model."
            )
        return targets

    def fill_mask(
        self,
        texts: Texts,
        top_k: int = 5,
        targets: str | Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """Predict the tokens for each `[MASK]`.

        Args:
            texts: A text or a pair with `[MASK]` in it, or many.
            top_k: int. The number of tokens to return for each. Defaults to `5`.
            targets: string or a sequence of strings. The only tokens to choose from,
                each a word or a piece of the vocabulary. Defaults to `None`, all
                tokens.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            For one text a list of dicts, the most likely first: `score` (a probability
            among all tokens), `token` (its id), `token_str`, and `sequence`, the text
            with the token. If a text has several `[MASK]`s, a list of such lists; the
            other `[MASK]`s stay in `sequence`. For many texts a list of these.

        Raises:
            ValueError: If a text has no `[MASK]` or one is cut off because the text is
                too long, a target is not a token, `top_k` is below 1, or the model has
                no preprocessor.

        Example:
            >>> from keras_albert import AlbertMaskedLM
            >>> masked_lm = AlbertMaskedLM.from_preset("albert_small_en_uncased")
            >>> answers = masked_lm.fill_mask("he opened the [MASK] and went in.")
            >>> answers[0]["token_str"], answers[0]["sequence"]
            ('door', 'he opened the door and went in.')
        """
        self.require_preprocessor("fill_mask")
        check_positive(top_k=top_k)
        candidates = target_ids(self.preprocessor.tokenizer, targets)
        examples, batched = self.encode_texts("prediction", texts)
        self.untrained_head_warning.warn(self, "fill_mask", "masked_lm_head")
        size = 32 if batch_size is None else batch_size
        answers = self._fill_masks(examples, top_k, candidates, size)
        return answers if batched else answers[0]

    def _fill_masks(
        self, examples: WrittenMasks, top_k: int, candidates: IntArray, size: int
    ) -> list[Any]:
        """Find the most likely tokens for each mask of each text."""
        tokenizer = self.preprocessor.tokenizer
        if (examples.written == 0).any():
            mask = tokenizer.mask_token
            raise ValueError(
                f"Row {int(np.argmin(examples.written))} of the texts has no {mask}. "
                f"Write {mask} where a token is to be filled in."
            )
        batches = LengthBatches(examples, self.preprocessor.padded_length, size)
        answers: list[Any] = [None] * len(examples)
        # Batch by batch: the scores of all masks may not fit in memory.
        for index, rows in enumerate(batches.plan):
            (inputs,) = batches[index]
            # The longest rows come first, so that errors appear early.
            self._check_nothing_lost(examples, rows, inputs["token_ids"])
            outputs = self.token_scores(outputs_of(self, inputs))
            for row, padded, mask, scores in zip(
                rows, inputs["token_ids"], inputs["padding_mask"], outputs, strict=True
            ):
                ids = padded[: mask.sum()]
                places = np.flatnonzero(ids == tokenizer.mask_token_id).tolist()
                fillings = [
                    self._fill(ids, place, scores[slot], top_k, candidates)
                    for slot, place in enumerate(places)
                ]
                answers[row] = fillings if len(fillings) > 1 else fillings[0]
        return answers

    def _fill(
        self, ids: IntArray, place: int, scores: Any, top_k: int, candidates: IntArray
    ) -> list[dict[str, Any]]:
        tokenizer = self.preprocessor.tokenizer
        chances = softmax(scores)[candidates]
        best = np.argsort(-chances, kind="stable")[:top_k]
        alone = int((ids == tokenizer.mask_token_id).sum()) == 1
        answers = []
        for token, score in zip(candidates[best].tolist(), chances[best], strict=True):
            filled = ids.copy()
            filled[place] = token
            sequence = _join(tokenizer, filled.tolist(), skip_special=alone)
            answers.append(
                {
                    "score": float(score),
                    "token": token,
                    "token_str": _join(tokenizer, [token]),
                    "sequence": sequence,
                }
            )
        return answers

    def _check_nothing_lost(
        self, examples: WrittenMasks, rows: Int64Array, token_ids: IntArray
    ) -> None:
        masks = (token_ids == examples.mask_token_id).sum(axis=1)
        lost = rows[masks < examples.written[rows]]
        if len(lost):
            mask = self.preprocessor.tokenizer.mask_token
            raise ValueError(
                f"Row {int(lost.min())} of the texts is longer than the "
                f"{self.preprocessor.max_length} tokens that the model reads, and a "
                f"{mask} in it is cut off. Shorten the text around it."
            )


def masked_lm_inputs(backbone: AlbertBackbone) -> dict[str, Any]:
    """Return the symbolic inputs: the backbone's, and `mask_positions`."""
    positions = keras.Input(shape=(None,), dtype="int32", name="mask_positions")
    return {**backbone.input, "mask_positions": positions}


def masked_lm_head(
    backbone: AlbertBackbone,
    layer_norm_epsilon: float | None = None,
    activation: Activation | None = None,
) -> MaskedLMHead:
    """Return a head with random weights that fits a backbone."""
    if layer_norm_epsilon is None:
        layer_norm_epsilon = backbone.layer_norm_epsilon
    return MaskedLMHead(
        backbone.token_embedding,
        activation=backbone.activation if activation is None else activation,
        layer_norm_epsilon=layer_norm_epsilon,
        dtype=backbone.dtype_policy,
        name="masked_lm_head",
    )


def masked_lm_loss() -> keras.losses.Loss:
    """Return cross-entropy, averaged over the masked tokens of a batch."""
    return TokenCrossEntropy(reduction="mean_with_sample_weight")


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
        >>> from keras_albert import AlbertMaskedLM
        >>> masked_lm = AlbertMaskedLM.from_preset("albert_tiny_en_uncased")
        >>> history = masked_lm.fit(["a fine film", "dull acting"], verbose=0)
        >>> answers = masked_lm.fill_mask("a [MASK] film", top_k=2)
        >>> sorted(answers[0])
        ['score', 'sequence', 'token', 'token_str']
    """

    preprocessor_cls = AlbertMaskedLMPreprocessor
    traits = MaskedLMTask.traits._replace(metrics_need_weights=True)
    uses_pooler = False

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertMaskedLMPreprocessor | None = None,
        head_layer_norm_epsilon: float | None = None,
        head_activation: Activation | None = None,
        **kwargs: Any,
    ) -> None:
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(
            backbone, head_layer_norm_epsilon, head_activation
        )

        inputs = masked_lm_inputs(backbone)
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.head_layer_norm_epsilon = head_layer_norm_epsilon
        self.head_activation = head_activation

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        ids = backbone_inputs(self.backbone, inputs)
        x = run_encoder(self.backbone, ids, training, num_layers)
        return fast_call(self.masked_lm_head, x, inputs["mask_positions"])

    def token_scores(self, outputs: Any) -> Any:
        """Return the only output."""
        return outputs

    def encode_id_targets(self, y: Any) -> npt.NDArray[Any]:
        """Read the ids at `mask_positions`; see `encode_token_targets`."""
        return self.encode_token_targets(y)

    def default_loss(self) -> keras.losses.Loss:
        """Return cross-entropy, averaged over the masked tokens of a batch."""
        return masked_lm_loss()

    def default_weighted_metrics(self) -> list[keras.metrics.Metric]:
        """Return the accuracy on masked tokens."""
        return [TokenAccuracy()]


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
        >>> from keras_albert import AlbertPretrainer
        >>> pretrainer = AlbertPretrainer.from_preset("albert_tiny_en_uncased")
        >>> first, second = ["a film", "a play"], ["fine acting", "dull acting"]
        >>> history = pretrainer.fit((first, second), verbose=0)
        >>> 0 < pretrainer.score_order("a film", "fine acting") < 1
        True
    """

    preprocessor_cls = AlbertPretrainerPreprocessor

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertPretrainerPreprocessor | None = None,
        **kwargs: Any,
    ) -> None:
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(backbone)
        self.sentence_order_head = output_dense(2, "sentence_order")

        inputs = masked_lm_inputs(backbone)
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        ids = backbone_inputs(self.backbone, inputs)
        x = fast_call(self.backbone, ids, training=training, num_layers=num_layers)
        tokens, positions = x["sequence_output"], inputs["mask_positions"]
        return {
            "masked_lm": fast_call(self.masked_lm_head, tokens, positions),
            "sentence_order": fast_call(self.sentence_order_head, x["pooled_output"]),
        }

    def token_scores(self, outputs: Any) -> Any:
        """Return the scores of tokens."""
        return outputs["masked_lm"]

    def encode_id_targets(self, y: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check a dict of the targets of both outputs."""
        if not isinstance(y, Mapping) or set(y) != {"masked_lm", "sentence_order"}:
            given = sorted(y) if isinstance(y, Mapping) else type(y).__name__
            raise ValueError(
                "Targets are a dict of 'masked_lm' and 'sentence_order'. Received: "
                f"{given}"
            )
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

        Example:
            >>> from keras_albert import AlbertPretrainer
            >>> pretrainer = AlbertPretrainer.from_preset("albert_tiny_en_uncased")
            >>> score = pretrainer.score_order("He sat down.", "Then he ate.")
            >>> bool(0 <= score <= 1)
            True
        """
        self.require_preprocessor("score_order")
        examples, batched = self.encode_texts("prediction", (first, second))
        self.untrained_head_warning.warn(self, "score_order", "sentence_order")
        logits = self.predict(examples, batch_size, verbose=0)["sentence_order"]
        # The softmax of two classes; the first is "in order".
        scores = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
        return scores if batched else float(scores[0])


@keras.saving.register_keras_serializable(package="keras_albert")
class TokenCrossEntropy(keras.losses.Loss):
    """Cross-entropy of the scores of tokens, which takes Keras twice as long."""

    def __init__(self, name: str = "token_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each token `(batch, slots)`."""
        rows = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        labels = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        losses = ops.sparse_categorical_crossentropy(labels, rows, from_logits=True)
        return ops.reshape(losses, ops.shape(y_pred)[:-1])


def _join(tokenizer: Any, ids: list[int], skip_special: bool = False) -> str:
    """Join pieces as transformers does, with special tokens as they are written."""
    special = tokenizer.special_token_ids if skip_special else ()
    texts = tokenizer.vocabulary.texts
    return "".join(texts[i] for i in ids if i not in special).removeprefix(" ")


def target_ids(tokenizer: Any, targets: str | Sequence[str] | None) -> IntArray:
    """Return the ids to choose from."""
    if targets is None:
        return np.arange(tokenizer.vocabulary_size(), dtype=np.int32)
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        targets = [targets]
    targets = list(targets)
    if not targets:
        msg = "`targets` is empty. Name the tokens to choose from, or leave it out."
        raise ValueError(msg)
    return np.unique([_target_id(tokenizer, target) for target in targets])


def _target_id(tokenizer: Any, target: Any) -> np.int32:
    if not isinstance(target, str):
        raise ValueError(
            f"`targets` must be words, but one is {target!r} "
            f"({type(target).__name__}). Pass strings."
        )
    # A word of a text takes precedence over a piece within a word.
    (ids,) = tokenizer.tokenize_rows([target]).to_lists()
    if len(ids) == 1 and ids[0] not in tokenizer.special_token_ids:
        return np.int32(ids[0])
    token = int(tokenizer.token_to_id(target))
    if tokenizer.id_to_token(token) == target:
        return np.int32(token)
    pieces = " ".join(tokenizer.id_to_token(i) for i in ids)
    raise ValueError(
        f"The target {target!r} is not in the vocabulary, which splits it into "
        f"{pieces!r}. A [MASK] stands for one token: pass another word, or one of "
        "these pieces."
    )
