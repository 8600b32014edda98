"""Train an ALBERT vocabulary from texts."""

import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sentencepiece

from keras_albert.text.reading import to_text_rows
from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_messages
from keras_albert.text.tokenizer.sentencepiece_file import (
    SPECIAL_TOKENS,
    check_vocabulary,
    parse_vocabulary,
)
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    retire_digit_comma_pieces,
)
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.reading import reading
from keras_albert.utils.remote import check_output, fetch

# The user-defined symbols of the released vocabularies (albert#127).
_USER_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]  # noqa: RUF001
# The trainer silently skips longer lines, so they are split, between words where
# possible: SentencePiece learns from words.
_MAX_LINE_BYTES = 4192
_LINE_PART = re.compile(r"\S.{0,998}\S(?!\S)|\S{1,1000}")


def train_vocabulary(
    texts: Iterable[str] | None = None,
    *,
    files: Sequence[str | os.PathLike[str]] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    vocabulary_size: int = 30000,
    hard_vocab_limit: bool = True,
    text_rules: TextRules | None = None,
    input_sentence_size: int = 10_000_000,
    character_coverage: float = 0.99995,
    num_threads: int = 16,
) -> bytes:
    """Train a unigram SentencePiece model with ALBERT's ids and text rules.

    The training texts are normalized by the rules that are written into the model.
    The same texts and arguments result in the same bytes on any number of processors,
    since SentencePiece samples the same lines each time.

    Args:
        texts: Iterable of strings of any length, each of one or more lines. Pass
            either `texts` or `files`.
        files: Paths of UTF-8 text files, plain or `.gz`. Defaults to `None`.
        output_path: Path to write the model to, atomically. Defaults to `None`, which
            does not write it.
        vocabulary_size: int. The number of pieces, including special tokens. Defaults
            to `30000`, as in the released models.
        hard_vocab_limit: bool. Whether to raise if the texts have fewer pieces than
            `vocabulary_size`; if `False`, the vocabulary is smaller. Defaults to
            `True`.
        text_rules: The rules. Defaults to `None`, the uncased `TextRules()`. For a
            cased vocabulary, pass `TextRules(lowercase=False, strip_accents=False)`.
        input_sentence_size: int. The number of lines to train on, sampled at random if
            there are more: more than 100, or 0 for all lines. Defaults to `10_000_000`.
        character_coverage: float. The fraction of all characters that are in the
            vocabulary. Defaults to `0.99995`.
        num_threads: int. The number of threads. It changes rounding, and thus slightly
            the result. Defaults to `16`.

    Returns:
        The model's bytes, for `AlbertTokenizer(proto)`.

    Raises:
        ValueError: If there is no text, a row is not a text, or there are too few
            texts (or too many characters) for `vocabulary_size`.

    References:
        - [Kudo, 2018](https://arxiv.org/abs/1804.10959), the unigram model.
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942); the settings are
          from google-research/albert's README.

    Example:
        >>> proto = train_vocabulary(["Crème brûlée."] * 9, vocabulary_size=21)
        >>> import sentencepiece
        >>> model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        >>> model.IdToPiece([0, 1, 2, 3, 4])
        ['<pad>', '<unk>', '[CLS]', '[SEP]', '[MASK]']
    """
    is_one = isinstance(texts, str) or isinstance(files, str | os.PathLike)
    if (texts is None) == (files is None) or is_one:
        raise ValueError(
            "Pass either a list of strings as `texts` or a list of paths as `files`. "
            f"Received: texts={texts!r:.80}, files={files!r:.80}"
        )
    if output_path is not None:
        check_output(output_path)
    rules = text_rules or TextRules()
    source = _Lines(texts if texts is not None else read_lines(files or ()))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(source),
            model_writer=model,
            normalizer=_ruled_normalizer(rules),
            model_type="unigram",
            vocab_size=vocabulary_size,
            hard_vocab_limit=hard_vocab_limit,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL_TOKENS[2:]),
            user_defined_symbols=_USER_SYMBOLS,
            shuffle_input_sentence=True,
            input_sentence_size=input_sentence_size,
            max_sentence_length=_MAX_LINE_BYTES,
            character_coverage=character_coverage,
            num_threads=num_threads,
            minloglevel=2,
        )
    except RuntimeError as error:
        if source.error is not None:
            raise source.error from None
        if not source.count:
            raise ValueError(
                "All lines are blank. Pass texts or files with text."
            ) from None
        raise ValueError(
            f"SentencePiece could not train {vocabulary_size} pieces on {source.count} "
            f"lines: {error}"
        ) from error
    finally:
        sentencepiece.SetMinLogLevel(0)
    trained = parse_vocabulary(model.getvalue())
    if rules.split_digit_comma:
        retire_digit_comma_pieces(trained)
    proto = check_vocabulary(bytes(trained.SerializeToString()))
    if output_path is not None:
        with atomic_file(output_path) as partial:
            partial.write_bytes(proto)
    return proto


class _Lines:
    """Iterates over the lines of texts; keeps an error to re-raise it outside C++."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts
        self.count = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for index, text in enumerate(self.texts):
                if not isinstance(text, str) or not text.isascii():
                    text = _checked(text, index)  # noqa: PLW2901
                for line in text.splitlines():
                    # A line that the trainer would skip is split.
                    parts: Iterable[str] = (line,) if line.strip() else ()
                    is_long = len(line) * 4 > _MAX_LINE_BYTES
                    if is_long and len(line.encode()) > _MAX_LINE_BYTES:
                        parts = _LINE_PART.findall(line)
                    for part in parts:
                        self.count += 1
                        yield part
        except Exception as error:
            self.error = error
            raise


def _checked(text: Any, index: int) -> str:
    """Read one text that is not a plain ASCII `str`; errors name its row."""
    try:
        return to_text_rows([text])[0][0]
    except ValueError as error:
        raise ValueError(str(error).replace("row 0", f"row {index}", 1)) from None


def read_lines(files: Sequence[str | os.PathLike[str]]) -> Iterator[str]:
    """Read text files, plain or compressed, line by line."""
    for path in files:
        name = os.fspath(fetch(path))
        opener: Any = gzip.open if name.endswith(".gz") else open
        with (
            reading(name, "Convert it to UTF-8, as in `iconv -f latin1 -t utf-8`."),
            opener(name, "rt", encoding="utf-8-sig") as file,
        ):
            yield from file


def _ruled_normalizer(rules: TextRules) -> Any:
    """Create the normalizer for training: nmt_nfkc, as in ALBERT, with the rules."""
    plain = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    # `add_text_rules` requires a whole model, with a trainer spec and pieces.
    model = sentencepiece_messages.ModelProto()
    model.ParseFromString(plain.serialized_model_proto())
    model.trainer_spec.SetInParent()
    model.pieces.add(piece="<unk>")
    ruled = parse_vocabulary(add_text_rules(model.SerializeToString(), rules))
    return sentencepiece.SentencePieceNormalizer(normalizer_spec=ruled.normalizer_spec)
