"""Reading of CoNLL files, and errors for invalid ones."""

import pytest

from keras_albert.text import read_conll


def write(tmp_path, data):
    path = tmp_path / "file.conll"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_tabs_spaces_and_further_columns(tmp_path):
    tabs = "New York\tB-place\n\t\nof\tO\n \n\n"
    assert read_conll(write(tmp_path, tabs)) == (
        [["New York"], ["of"]],
        [["B-place"], ["O"]],
    )
    spaces = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\r\nrejects VBZ I-VP O\r\n"
    assert read_conll(write(tmp_path, spaces)) == (
        [["EU", "rejects"]],
        [["I-ORG", "O"]],
    )
    assert read_conll(write(tmp_path, "1 a B-x\n"), word_column=1) == (
        [["a"]],
        [["B-x"]],
    )


def test_byte_order_mark_and_unusual_line_separators(tmp_path):
    words, _ = read_conll(write(tmp_path, b"\xef\xbb\xbfa\tO\nb\xe2\x80\xa8c\tO"))
    assert words == [["a", "b\u2028c"]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a\tO\nb\n", r"file\.conll, line 2: 'b' should be a word and its tag"),
        ("a O\nb\t\n", r"file\.conll, line 2: 'b'"),
        (b"a\tO\n\xff\tO\n", r"file\.conll, line 2, is not UTF-8"),
        ("\n\n", r"file\.conll holds no words"),
        ("", r"file\.conll holds no words"),
    ],
)
def test_errors_name_the_line(tmp_path, data, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write(tmp_path, data))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.conll"):
        read_conll(tmp_path / "none.conll")


@pytest.mark.shared_data
def test_wnut(shared_data):
    folder = shared_data / "ner" / "wnut17"
    words, tags = read_conll(folder / "wnut17train.conll")
    assert (len(words), sum(map(len, words))) == (3394, 62730)
    assert [len(row) for row in tags] == [len(row) for row in words]
