"""What masked language models share, with or without a second loss."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.masked_lm_head import MaskedLMHead
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.inputs.preprocessed_inputs import read_positions
from keras_albert.tasks.masked_lm.fill_mask import fill_masks, target_ids
from keras_albert.types import Texts
from keras_albert.utils.arguments import check_positive


class MaskedLMTask(AlbertTask):
    """The part of a task that predicts masked tokens.

    A subclass says which of its outputs are the scores of tokens (`token_scores`).
    """

    is_self_supervised = True
    ids_have_targets = False

    # No `[MASK]` stands in place of `[CLS]`.
    output_places = "mask_positions"

    shared_head_layers = ("masked_lm_head",)

    @property
    def target_dtype(self) -> str:
        """The dtype of token ids."""
        return "int32"

    def token_scores(self, outputs: Any) -> Any:
        """Pick the scores of tokens `(batch, slots, vocabulary_size)`."""
        raise NotImplementedError

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Refuse targets of texts, which are their own."""
        msg = (
            f"{type(self).__name__} makes its targets from the texts. Received others: "
            f"{str(y)[:80]!r}. Leave them out; a pair of texts is one argument, "
            "`x=(first, second)`."
        )
        raise ValueError(msg)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read ids and `mask_positions`, and check them."""
        return read_positions(super().read_ids(inputs), inputs)

    def encode_token_targets(self, y: Any) -> npt.NDArray[Any]:
        """Read the ids that stood at `mask_positions`, and check them.

        Args:
            y: Integers `(examples, slots)`.

        Returns:
            The same, as an array.

        Raises:
            ValueError: If they are no such integers, or outside the vocabulary; the
                message names the row.
        """
        targets = np.asarray(y)
        if targets.ndim != 2 or targets.dtype.kind not in "iu":
            msg = (
                "Targets are the ids that stood at `mask_positions`, integers "
                f"(examples, slots). Received: {targets.dtype} {targets.shape}"
            )
            raise ValueError(msg)
        limit = self.backbone.vocabulary_size
        outside = ((targets < 0) | (targets >= limit)).any(axis=1)
        if outside.any():
            msg = (
                f"Row {int(outside.argmax())} of the targets holds an id outside 0 to "
                f"{limit - 1}. Use the vocabulary that the model was made with."
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
        """Say what could stand in place of each `[MASK]`.

        Args:
            texts: A text or a pair with `[MASK]` in it, or many.
            top_k: int. How many tokens to name for each. Defaults to `5`.
            targets: string or a sequence of them. The only tokens to choose from,
                each a word of the vocabulary (or a piece of it, as it is written
                there). Defaults to `None`, all tokens.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For one text a list of dicts, the likeliest first: `score` (a probability
            among all tokens), `token` (its id), `token_str`, and `sequence`, the text
            with the token in place. If a text has several `[MASK]`s, a list of such
            lists, where the others stay in `sequence`. For many texts a list of
            these.

        Raises:
            ValueError: If a text has no `[MASK]` or is so long that one is cut off,
                if a target is no token, `top_k` is below 1, or the model has no
                preprocessor.
        """
        if self.preprocessor is None:
            msg = (
                "`fill_mask` reads texts, and this model has no preprocessor. Build "
                "it with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        check_positive(top_k=top_k)
        candidates = target_ids(self.preprocessor.tokenizer, targets)
        examples, batched = self.preprocessor.encode_for("prediction", texts)
        answers = fill_masks(self, examples, top_k, candidates, batch_size)
        return answers if batched else answers[0]


def masked_lm_inputs(backbone: AlbertBackbone) -> dict[str, Any]:
    """Give the symbolic inputs of a masked language model.

    Args:
        backbone: An `AlbertBackbone`.

    Returns:
        The backbone's, and `mask_positions`, int32 `(batch, slots)`.
    """
    positions = keras.Input(shape=(None,), dtype="int32", name="mask_positions")
    return {**backbone.input, "mask_positions": positions}


def masked_lm_head(
    backbone: AlbertBackbone, layer_norm_epsilon: float | None = None
) -> MaskedLMHead:
    """Make the head that fits a backbone.

    Args:
        backbone: An `AlbertBackbone`.
        layer_norm_epsilon: float or `None`. Defaults to `None`, the backbone's.

    Returns:
        A head of random weights, apart from the backbone's token embeddings.
    """
    return MaskedLMHead(
        backbone.token_embedding,
        activation=backbone.activation,
        layer_norm_epsilon=(
            backbone.layer_norm_epsilon
            if layer_norm_epsilon is None
            else layer_norm_epsilon
        ),
        dtype=backbone.dtype_policy,
        name="masked_lm_head",
    )


def masked_lm_loss() -> keras.losses.Loss:
    """Give cross-entropy, averaged over the masked tokens of a batch."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
