"""The common part of masked language models."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.masked_lm_head import MaskedLMHead
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.inputs.preprocessed_inputs import first_outside, read_positions
from keras_albert.tasks.masked_lm.fill_mask import fill_masks, target_ids
from keras_albert.tasks.masked_lm.token_cross_entropy import TokenCrossEntropy
from keras_albert.types import Activation, Texts
from keras_albert.utils.arguments import check_positive


class MaskedLMTask(AlbertTask):
    """The part of a task that predicts masked tokens.

    A subclass selects the output with the scores of tokens (`token_scores`).
    """

    is_self_supervised = True
    ids_have_targets = False

    # Position 0, of `[CLS]`, is never masked.
    output_places = "mask_positions"

    shared_head_layers = ("masked_lm_head",)

    @property
    def target_dtype(self) -> str:
        """The dtype of token ids."""
        return "int32"

    def token_scores(self, outputs: Any) -> Any:
        """Return the scores of tokens, `(batch, slots, vocabulary_size)`."""
        raise NotImplementedError

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Raise: targets of texts come from the texts."""
        msg = (
            f"{type(self).__name__} makes its targets from the texts. Received: y="
            f"{str(y)[:80]!r}. Leave them out; a pair of texts is one argument, "
            "`x=(first, second)`."
        )
        raise ValueError(msg)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check ids and `mask_positions`."""
        return read_positions(super().read_ids(inputs), inputs)

    def encode_token_targets(self, y: Any) -> npt.NDArray[Any]:
        """Read and check the original ids at `mask_positions`.

        Args:
            y: Integers `(examples, slots)`.

        Returns:
            An array.

        Raises:
            ValueError: If they are not such integers, or outside the vocabulary; the
                message names the row.
        """
        targets = np.asarray(y)
        if targets.ndim != 2 or targets.dtype.kind not in "iu":
            msg = (
                "Targets are the original ids at `mask_positions`, integers "
                f"(examples, slots). Received: {targets.dtype} {targets.shape}"
            )
            raise ValueError(msg)
        limit = self.backbone.vocabulary_size
        if (row := first_outside(targets, limit)) is not None:
            msg = (
                f"Row {row} of the targets contains an id outside 0 to "
                f"{limit - 1}. Use the vocabulary of the model."
            )
            raise ValueError(msg)
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
        """
        self.require_preprocessor("fill_mask")
        check_positive(top_k=top_k)
        candidates = target_ids(self.preprocessor.tokenizer, targets)
        examples, batched = self.encode("prediction", texts)
        self.random_head.warn(self, "fill_mask", "masked_lm_head")
        answers = fill_masks(self, examples, top_k, candidates, batch_size)
        return answers if batched else answers[0]


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
    return MaskedLMHead(
        backbone.token_embedding,
        activation=backbone.activation if activation is None else activation,
        layer_norm_epsilon=(
            backbone.layer_norm_epsilon
            if layer_norm_epsilon is None
            else layer_norm_epsilon
        ),
        dtype=backbone.dtype_policy,
        name="masked_lm_head",
    )


def masked_lm_loss() -> keras.losses.Loss:
    """Return cross-entropy, averaged over the masked tokens of a batch."""
    return TokenCrossEntropy(reduction="mean_with_sample_weight")
