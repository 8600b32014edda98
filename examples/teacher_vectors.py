"""Vectors of a sentence encoder, kept on disk for a student to learn from.

The teacher reads each text once, and its outputs are kept, so that the student can read
the text many times, with other masks each time. A text is one to three sentences of
prepared examples. Kept are a vector of the text, which is the mean of the teacher's
last layer (as in sentence-transformers), and one of each word: the mean of its tokens
in the last two layers, each normalized (as in
[data2vec](https://arxiv.org/abs/2202.03555)). Words, because the teacher has another
vocabulary.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track

from keras_albert.pretraining import PretrainingData
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.utils.atomic_files import atomic_file

CHUNK = 8192
BATCH = 256
LONGEST = 61  # with two special tokens, below a multiple of 8
SHORTEST = 6
# How often a text has one, two and three sentences.
SENTENCES = (0.6, 0.25, 0.15)


class Chunk(NamedTuple):
    """Some thousand texts, and what the teacher returns for them.

    Args:
        ids: int32 array `(tokens,)`. The ids of all texts, without special tokens.
        lengths: int64 array `(texts,)`. The number of tokens of each.
        words: float16 array `(words, width)`. A vector of each word.
        texts: float16 array `(texts, width)`. A vector of each text, of length 1.
    """

    ids: np.ndarray
    lengths: np.ndarray
    words: np.ndarray
    texts: np.ndarray


def write_vectors(
    data: PretrainingData, teacher: str, target: Path, count: int, dtype: str
) -> None:
    """Write the teacher's vectors of `count` texts; existing chunks are kept.

    Args:
        data: `PretrainingData`.
        teacher: string. The directory or the name of an encoder of transformers.
        target: Path. A directory.
        count: int. The number of texts; above 8,192 it is rounded up to a multiple.
        dtype: string. The teacher's, `"float32"` or `"bfloat16"`. On processors with
            instructions for bfloat16, it is twice as fast; on others, far slower.
    """
    size = min(count, CHUNK)
    paths = [target / f"{number:05}.npz" for number in range(-(-count // size))]
    missing = [(number, path) for number, path in enumerate(paths) if not path.exists()]
    if not missing:
        return
    encode = load_teacher(teacher, dtype)
    target.mkdir(parents=True, exist_ok=True)
    for number, path in track(missing, "the teacher reads"):
        rows = draw_texts(data, size, seed=number)
        words = split_words(rows, data.tokenizer)
        chunk = Chunk(rows.values, rows.lengths, *encode(words))
        with atomic_file(path) as partial, partial.open("wb") as file:
            np.savez(file, **chunk._asdict())


def read_chunk(path: Path) -> Chunk:
    """Read a chunk."""
    with np.load(path, allow_pickle=False) as file:
        return Chunk(**file)


def draw_texts(data: PretrainingData, count: int, seed: int) -> TokenRows:
    """Draw texts of one to three sentences, one from each of `count` examples."""
    generator = np.random.default_rng([seed, 2])
    tokenizer = data.tokenizer
    begins = begins_word(tokenizer)
    ends = np.array([p.endswith((".", "!", "?")) for p in pieces_of(tokenizer)])
    texts: list[np.ndarray] = []
    while len(texts) < count:
        for segment in data.segments(generator.integers(len(data), size=count)):
            for ids in np.split(segment.values, np.cumsum(segment.lengths)[:-1]):
                text = _draw_text(ids, begins, ends, generator)
                if text is not None and tokenizer.unk_token_id not in text:
                    texts.append(text)
    return TokenRows.from_arrays(texts[:count])


def _draw_text(
    ids: np.ndarray, begins: np.ndarray, ends: np.ndarray, generator: Any
) -> np.ndarray | None:
    """Return some consecutive sentences, cut at a word if they are too long."""
    is_begin = begins[ids]
    is_end = ends[ids] & np.append(is_begin[1:], True)
    # A segment may begin within a sentence.
    cuts = np.flatnonzero(is_end) + 1
    wanted = generator.choice(len(SENTENCES), p=SENTENCES) + 1
    if len(cuts) < 2:
        return None
    first = generator.integers(len(cuts) - 1)
    last = min(first + wanted, len(cuts) - 1)
    # Abbreviations end in a full stop, too.
    while last < len(cuts) - 1 and cuts[last] - cuts[first] < SHORTEST:
        last += 1
    text = ids[cuts[first] : cuts[last]]
    if len(text) > LONGEST:
        places = np.flatnonzero(begins[text[: LONGEST + 1]])
        text = text[: places[-1]]
    if len(text) < SHORTEST or not begins[text[0]]:
        return None
    return text


def pieces_of(tokenizer: Any) -> list[str]:
    """Return the pieces of a vocabulary, by their ids."""
    return [tokenizer.id_to_token(i) for i in range(tokenizer.vocabulary_size())]


def begins_word(tokenizer: Any) -> np.ndarray:
    """Return which pieces begin a word, a bool array `(vocabulary,)`."""
    return np.array([piece.startswith("▁") for piece in pieces_of(tokenizer)])


def split_words(rows: TokenRows, tokenizer: Any) -> list[list[str]]:
    """Return the words of each text."""
    pieces = pieces_of(tokenizer)
    return [
        "".join(pieces[token] for token in row).removeprefix("▁").split("▁")
        for row in rows.to_lists()
    ]


def load_teacher(name: str, dtype: str) -> Any:
    """Load an encoder of transformers.

    Returns:
        A function of lists of words, which returns vectors of words and of texts.
    """
    import torch  # noqa: PLC0415  (the student may run on another backend)
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, dtype=getattr(torch, dtype)).eval()

    def run(texts: list[list[str]]) -> tuple[list[Any], Any]:
        batch = tokenizer(
            texts, is_split_into_words=True, padding=True, return_tensors="pt"
        )
        layers = model(**batch, output_hidden_states=True).hidden_states
        mask = batch["attention_mask"][..., None]
        mean = (layers[-1].float() * mask).sum(1) / mask.sum(1)
        width = layers[-1].shape[-1:]
        normed = [torch.nn.functional.layer_norm(x.float(), width) for x in layers[-2:]]
        tokens = sum(normed) / len(normed)
        words = []
        for number, text in enumerate(texts):
            owners = batch.word_ids(number)
            inside = [place for place, word in enumerate(owners) if word is not None]
            owner = torch.tensor([owners[place] for place in inside])
            total = torch.zeros(len(text), *width).index_add_(
                0, owner, tokens[number, inside]
            )
            # A word without tokens, such as a control character, has a zero vector.
            words.append(
                total / torch.bincount(owner, minlength=len(text))[:, None].clamp(1)
            )
        return words, torch.nn.functional.normalize(mean, dim=-1)

    def encode(texts: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort([sum(map(len, text)) for text in texts])
        words: list[Any] = [None] * len(texts)
        means: list[Any] = [None] * len(texts)
        with torch.inference_mode():
            for begin in range(0, len(texts), BATCH):
                part = order[begin : begin + BATCH].tolist()
                of_words, of_texts = run([texts[place] for place in part])
                for place, word, mean in zip(part, of_words, of_texts, strict=True):
                    words[place] = word.half().numpy()
                    means[place] = mean.half().numpy()
        return np.concatenate(words), np.stack(means)

    return encode
