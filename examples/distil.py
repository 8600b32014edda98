"""Pretrain a small model on masked tokens and on the vectors of a teacher.

The student predicts masked tokens, the teacher's vector of the word of each token, and
its vector of the text: from the mean of the tokens, and from the pooler, which is not
trained otherwise. The cosines of two texts are those of the teacher, so that the mean
of the tokens is a vector of a text as it is. In a quarter of the batches of texts, a
row is a pair, and the pooler predicts the teacher's cosine of the two. Few tokens of
these texts are masked. Since they are short, batches of longer rows, without a teacher,
are between them.

The teacher's vectors are targets like others, so that a plain Keras model and its `fit`
are all that is needed; see `teacher_vectors.py`.
"""

import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from teacher_vectors import Chunk, begins_word, read_chunk

from keras_albert import AlbertMaskedLM
from keras_albert.layers.heads import masked_mean
from keras_albert.pretraining import PretrainingConfig, PretrainingData
from keras_albert.pretraining.dataset import HeldOut
from keras_albert.pretraining.model import build_optimizer, compile_pretrainer
from keras_albert.tasks.base.losses_and_metrics import TokenAccuracy
from keras_albert.tasks.masked_lm import TokenCrossEntropy
from keras_albert.text.masking import (
    MaskingRates,
    WholeWordMasking,
)
from keras_albert.text.packing import EncodedTexts, SpecialIds
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.training.recorder import moving_averages
from keras_albert.training.run_folder import TrainingCurve

BATCH = 64
# Of so many texts of similar length, the similar ones form batches.
NEAR = 16 * BATCH
# Rows and their length, without a teacher.
LONG_ROWS = ((16, 128), (4, 512))
# How many of these batches there are for each one of texts.
LONG_SHARE = 3 / 8
# The share of the batches of texts in which a row is a pair.
PAIR_SHARE = 1 / 4
# How often the second text is the most similar of the chunk, one of the batch, and the
# first again, with other masks.
PARTNERS = (0.6, 0.3, 0.1)
# The word of special tokens and padding.
NO_WORD = SpecialIds(-1, -1, -1)
EVALUATE_EVERY = 5
MASKED = 0.1
LOSS_WEIGHTS = {
    "masked_lm": 1.0,
    "words": 6.0,
    "text": 6.0,
    "pooled": 4.0,
    "cosines": 120.0,
    "pair": 30.0,
}
# The outputs that learn the vector of a text.
OF_TEXTS = ("text", "pooled", "cosines")


class Student(keras.Model):
    """A masked language model that also predicts the vectors of its teacher.

    Args:
        masked_lm: `AlbertMaskedLM`.
        width: int. The width of the teacher's vectors.
    """

    def __init__(self, masked_lm: AlbertMaskedLM, width: int) -> None:
        backbone = masked_lm.backbone
        inputs = masked_lm.input
        x = backbone(backbone.input)["sequence_output"]
        mean = masked_mean(x, inputs["padding_mask"])
        project = {
            name: keras.layers.Dense(width, dtype=backbone.dtype_policy, name=name)
            for name in ("words", "text", "pooled")
        }
        pooled = backbone.pooler(mean)
        outputs = {
            "masked_lm": masked_lm.masked_lm_head(x, inputs["mask_positions"]),
            "words": project["words"](x),
            "text": project["text"](mean),
            "pooled": project["pooled"](pooled),
            "cosines": mean,
            "pair": keras.layers.Dense(1, dtype="float32", name="pair")(pooled),
        }
        super().__init__(inputs=inputs, outputs=outputs)


def squared_error(true: Any, predicted: Any) -> Any:
    """Return the squared error of each vector."""
    return ops.mean(ops.square(ops.cast(predicted, "float32") - true), axis=-1)


def one_minus_cosine(true: Any, predicted: Any) -> Any:
    """Return the distance of each vector from a vector of length 1."""
    unit = ops.normalize(ops.cast(predicted, "float32"), axis=-1)
    return 1 - ops.sum(unit * true, axis=-1)


def error_of_cosines(true: Any, predicted: Any) -> Any:
    """Return the squared error of the cosines of each text and all others."""
    unit = ops.normalize(ops.cast(predicted, "float32"), axis=-1)
    error = ops.matmul(unit, ops.transpose(unit)) - ops.matmul(
        true, ops.transpose(true)
    )
    return ops.mean(ops.square(error), axis=-1)


def similar_texts(
    texts: np.ndarray, vectors: np.ndarray, generator: np.random.Generator
) -> list[np.ndarray]:
    """Divide texts into batches, each of a random text and those most similar to it.

    The cosines of random texts are all close to 0; those of a subject are not. The last
    batches are of texts that are left, and so random.
    """
    left, batches = texts, []
    while len(left):
        near = vectors[left] @ vectors[generator.choice(left)]
        order = np.argsort(-near, kind="stable")
        batches.append(left[order[:BATCH]])
        left = left[order[BATCH:]]
    return batches


def most_similar(vectors: np.ndarray) -> np.ndarray:
    """Return the number of the other vector with the highest cosine, for each vector.

    Args:
        vectors: float32 array `(texts, width)`. Vectors of length 1.

    Returns:
        int64 array `(texts,)`.
    """
    found = np.empty(len(vectors), np.int64)
    for begin in range(0, len(vectors), 1024):
        rows = np.arange(begin, min(begin + 1024, len(vectors)))
        cosines = vectors[rows] @ vectors.T
        cosines[np.arange(len(rows)), rows] = -1.0
        found[rows] = cosines.argmax(axis=1)
    return found


class Batches(keras.utils.PyDataset):
    """The batches of a chunk, between batches of long rows without a teacher.

    An epoch has the batches of one chunk. They depend on its number alone, so that a
    resumed run continues with the next.

    Args:
        data: `PretrainingData`.
        chunks: list of paths.
        seed: int.
        begun: int. The number of batches that have been read.
    """

    def __init__(
        self, data: PretrainingData, chunks: list[Path], seed: int, begun: int
    ) -> None:
        super().__init__()
        self.chunks, self.seed = chunks, seed
        tokenizer = data.tokenizer
        self.special = SpecialIds(
            tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        )
        self.begins = begins_word(tokenizer)
        rates = MaskingRates(MASKED, 1.0, 0.0, max_ngram=1)
        self.masking = WholeWordMasking(tokenizer, rates)
        self.long = [data.batches(*shape) for shape in LONG_ROWS]
        self.num_texts = len(read_chunk(chunks[0]).lengths) // BATCH * BATCH
        self.epoch = begun // len(self)
        self.tokens_read = 0
        self._begin_epoch()

    def __len__(self) -> int:
        return int(self.num_texts // BATCH * (1 + LONG_SHARE))

    def on_epoch_end(self) -> None:
        """Read the next chunk."""
        self.epoch += 1
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        turn, place = divmod(self.epoch, len(self.chunks))
        order = np.random.default_rng([self.seed, turn]).permutation(len(self.chunks))
        self.generator = np.random.default_rng([self.seed, self.epoch, 1])
        self.chunk: Chunk = read_chunk(self.chunks[order[place]])
        self.ids = TokenRows(self.chunk.ids, self.chunk.lengths)
        # The number of the word of each token.
        words = np.cumsum(self.begins[self.chunk.ids], dtype="int32") - 1
        self.words = TokenRows(words, self.chunk.lengths)
        self.texts = self.chunk.texts.astype("float32")
        self.nearest = most_similar(self.texts)
        by_length = np.argsort(self.chunk.lengths, kind="stable")[: self.num_texts]
        texts = [
            batch
            for begin in range(0, len(by_length), NEAR)
            for batch in similar_texts(
                by_length[begin : begin + NEAR], self.texts, self.generator
            )
        ]
        self.order = [*texts, *[None] * (len(self) - len(texts))]
        self.generator.shuffle(self.order)

    def __getitem__(self, index: int) -> Any:
        rows = self.order[index]
        x, targets = self._long_batch(index) if rows is None else self._text_batch(rows)
        self.tokens_read += int(x["padding_mask"].sum())
        return x, *self._all_targets(x, targets)

    def _text_batch(self, rows: np.ndarray) -> Any:
        vectors = self.texts[rows]
        if self.generator.random() < PAIR_SHARE:
            others = self._partners(rows)
            x, targets = self._pack(rows, others)
            cosines = np.sum(vectors * self.texts[others], axis=1, keepdims=True)
            of_rows = {"pair": cosines}
        else:
            x, targets = self._pack(rows)
            of_rows = dict.fromkeys(OF_TEXTS, vectors)
        weight = np.ones(len(rows), "float32")
        targets |= {name: (target, weight) for name, target in of_rows.items()}
        return x, targets

    def _partners(self, rows: np.ndarray) -> np.ndarray:
        """Return another text for each text of a batch."""
        shuffled = np.roll(rows, self.generator.integers(1, len(rows)))
        kinds = self.generator.choice(len(PARTNERS), size=len(rows), p=PARTNERS)
        return np.choose(kinds, [self.nearest[rows], shuffled, rows])

    def _pack(self, *columns: np.ndarray) -> Any:
        """Pack texts, or pairs, with the vectors of their words."""
        x = pack(self.ids, self.special, columns)
        word = pack(self.words, NO_WORD, columns)["token_ids"]
        within = word >= 0
        vectors = self.chunk.words[word * within].astype("float32")
        masked = self.masking(x["token_ids"], self.generator)
        x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
        return x, {
            "masked_lm": (masked.labels, _mean_one(masked.weights)),
            "words": (vectors, _mean_one(within.astype("float32"))),
        }

    def _long_batch(self, index: int) -> Any:
        # Numbered over all epochs, so that each is read once.
        batches = self.long[index % len(self.long)]
        x, labels, weight = batches.batch(self.epoch * len(self) + index)
        return x, {"masked_lm": (labels, weight)}

    def _all_targets(self, x: Any, targets: Any) -> tuple[Any, Any]:
        """Return targets and weights of all outputs; those without a target weigh 0."""
        rows, length = x["token_ids"].shape
        width = self.chunk.texts.shape[1]
        shapes = {"words": (rows, length, width), "pair": (rows, 1)}
        shapes |= dict.fromkeys(OF_TEXTS, (rows, width))
        for name in shapes.keys() - targets.keys():
            shape = shapes[name]
            targets[name] = np.zeros(shape, "float32"), np.zeros(shape[:-1], "float32")
        y = {name: target for name, (target, _) in targets.items()}
        return y, {name: weight for name, (_, weight) in targets.items()}


def pack(
    tokens: TokenRows, special: SpecialIds, columns: tuple[np.ndarray, ...]
) -> Any:
    """Pack numbers of tokens into rows of one or two texts."""
    texts = tuple(tokens.take(column) for column in columns)
    rows = EncodedTexts(texts, special, max_length=128)
    length = -(-int(rows.lengths.max()) // 8) * 8
    return rows.pack(np.arange(len(rows)), length)


def _mean_one(weights: np.ndarray) -> np.ndarray:
    """Scale weights, so that the mean over all cells is that over the used ones."""
    return weights * (weights.size / weights.sum())


def distil(
    preset: Path | str,
    data: PretrainingData,
    held_out: HeldOut,
    vectors: Path,
    target: Path,
    config: PretrainingConfig,
) -> tuple[AlbertMaskedLM, dict[str, float], list[dict[str, float]]]:
    """Train a student, or resume after the last complete epoch.

    Args:
        preset: The model to start from.
        data: `PretrainingData`.
        held_out: `HeldOut`. The validation set.
        vectors: Path. A directory of `write_vectors`.
        target: Path. A directory for checkpoints and the curve.
        config: `PretrainingConfig`, of which the seed, the precision, the steps and the
            optimizer are used.

    Returns:
        The student with the average of its weights, its scores on the validation set,
        and the rows of the curve.
    """
    keras.utils.set_random_seed(config.seed)
    masked_lm = AlbertMaskedLM.from_preset(preset, dtype=config.precision)
    chunks = sorted(vectors.glob("*.npz"))
    student = Student(masked_lm, read_chunk(chunks[0]).texts.shape[1])
    losses: dict[str, Any] = {
        "masked_lm": TokenCrossEntropy(),
        "words": squared_error,
        "text": one_minus_cosine,
        "pooled": one_minus_cosine,
        "cosines": error_of_cosines,
        "pair": squared_error,
    }
    # Unlike Keras' means of losses, these leave out rows without a target.
    metrics = {
        name: [keras.metrics.MeanMetricWrapper(loss, name="error")]
        for name, loss in losses.items()
    }
    metrics["masked_lm"] = [TokenAccuracy()]
    student.compile(
        build_optimizer(config),
        losses,
        loss_weights=LOSS_WEIGHTS,
        weighted_metrics=metrics,
        auto_scale_loss=False,
    )
    student.optimizer.build(student.trainable_variables)
    compile_pretrainer(masked_lm, config)

    target.mkdir(parents=True, exist_ok=True)
    state, curve = target / "state.weights.h5", TrainingCurve(target / "curve.jsonl")
    if state.exists():
        student.load_weights(state)
    steps_done = int(ops.convert_to_numpy(student.optimizer.iterations))
    batches = Batches(data, chunks, config.seed, steps_done)
    begun, epochs = batches.epoch, -(-config.steps // len(batches))
    curve.write(curve.rows()[:begun])
    clock, counted = time.monotonic(), 0

    def record(epoch: int, logs: dict[str, float]) -> None:
        nonlocal clock, counted
        row = {
            "step": (epoch + 1) * len(batches),
            "tokens": batches.tokens_read - counted,
            "seconds": time.monotonic() - clock,
            **logs,
        }
        if (epoch + 1) % EVALUATE_EVERY == 0 or epoch + 1 == epochs:
            row |= {f"val_{k}": v for k, v in evaluate(masked_lm, held_out).items()}
        partial = target / "next.weights.h5"
        student.save_weights(partial)
        partial.replace(state)
        curve.append(row)
        clock, counted = time.monotonic(), batches.tokens_read

    student.fit(
        batches,
        initial_epoch=begun,
        epochs=epochs,
        verbose=2,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=record)],
    )
    averages = moving_averages(student.optimizer)
    for average, variable in zip(averages, student.trainable_variables, strict=True):
        variable.assign(average)
    return masked_lm, evaluate(masked_lm, held_out), curve.rows()


def evaluate(masked_lm: AlbertMaskedLM, held_out: HeldOut) -> dict[str, float]:
    """Return the scores on the validation set."""
    x, y, weights = held_out.arrays
    scores: dict[str, float] = keras.Model.evaluate(
        masked_lm,
        x,
        y,
        sample_weight=weights,
        batch_size=32,
        verbose=0,
        return_dict=True,
    )
    bits = held_out.bits_per_character(scores["loss"])
    return scores | {"masked_lm_bits_per_character": bits}
