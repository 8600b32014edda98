"""Reads files in CoNLL's format: one word and its tag per line."""

import os
from pathlib import Path

from keras_albert.utils.local_path import local_path

_DOCUMENT = "-DOCSTART-"


def read_conll(
    path: str | os.PathLike[str], word_column: int = 0, tag_column: int = -1
) -> tuple[list[list[str]], list[list[str]]]:
    r"""Read a CoNLL file: a word and its tag on each line, a blank line after a text.

    Columns are separated by tabs if the line contains a tab, otherwise by spaces.
    Lines that begin with `-DOCSTART-` separate texts as well.

    Args:
        path: string or path. A UTF-8 file.
        word_column: int. The column of the word. Defaults to `0`.
        tag_column: int. The column of the tag. Defaults to `-1`, the last column.

    Returns:
        The words and the tags of each text.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line has too few columns, or the file is not UTF-8 or does not
            contain words; the message names the file and the line.

    Source: [Tjong Kim Sang and De Meulder, 2003](https://arxiv.org/abs/cs/0306050).

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.conll")
        >>> _ = path.write_text("Ada\tB-person\nwrote\tO\n\nOslo\tB-place\n")
        >>> read_conll(path)
        ([['Ada', 'wrote'], ['Oslo']], [['B-person', 'O'], ['B-place']])
    """
    texts: list[list[str]] = []
    rows: list[list[str]] = []
    words: list[str] = []
    tags: list[str] = []
    # Not `splitlines`, which also splits at characters that occur within tweets.
    for number, line in enumerate(_read_text(local_path(path)).split("\n"), start=1):
        if not line.strip() or line.startswith(_DOCUMENT):
            if words:
                texts.append(words)
                rows.append(tags)
                words, tags = [], []
            continue
        columns = line.rstrip("\r").split("\t" if "\t" in line else None)
        try:
            word, tag = columns[word_column], columns[tag_column].strip()
        except IndexError:
            word, tag = "", ""
        if len(columns) < 2 or not tag:
            msg = (
                f"{path}, line {number}: {line.strip()[:60]!r} should be a word and "
                "its tag, with a tab or a space between them. Correct the line, or "
                "leave it empty where a text ends."
            )
            raise ValueError(msg)
        words.append(word)
        tags.append(tag)
    if words:
        texts.append(words)
        rows.append(tags)
    if not texts:
        msg = f"{path} holds no words. Each line should be a word, a tab and its tag."
        raise ValueError(msg)
    return texts, rows


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = (
            f"{path}, line {line}, is not UTF-8 ({error.reason}). Convert the file, "
            "for instance with `iconv`."
        )
        raise ValueError(msg) from error
