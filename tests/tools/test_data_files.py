"""Users' tables: invalid values are errors that name the file and the row."""

import gzip
from pathlib import Path

import pytest

from keras_albert.tools.data_files import FileRows, describe, read_table
from keras_albert.tools.datasets import check_files
from keras_albert.tools.tasks import TASKS


def read(kind, path, **columns):
    return TASKS[kind].read(path, columns)


def write(tmp_path, name, contents):
    path = tmp_path / name
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path


CLASSES, TAGS, CHOICES = "classification", "token-classification", "multiple-choice"
HEAD, ROW = "question\tA\tB\tanswer\n", '{"text": "a", "label": '
WORDS, ASKED = (
    '{"words": ["a"], "tags": ',
    '{"question": "?", "choices": "xy", "answer": 0}',
)


@pytest.mark.parametrize(
    ("kind", "name", "contents", "message"),
    [
        (CLASSES, "a.tsv", "text\tlabel\na\tx\nb\t\n", "line 3.*''.*a label"),
        (CLASSES, "a.tsv", "text\tlabel\na\t \t\n", "line 2 has 3 fields"),
        (CLASSES, "a.csv", "text,label\na,   \n", "line 2.*'   '.*a label"),
        (CLASSES, "a.tsv", "text\tlabel\n", "contains no rows"),
        (CLASSES, "a.tsv", "text\tlabel\na\n", "line 2 has 1 fields, but the"),
        (CLASSES, "a.tsv", "words\tlabel\na\tb\n", "a usual name for a text"),
        (CLASSES, "a.csv", 'text,label\n"a,b\n', "line 2.*Correct the quotes"),
        (CLASSES, "a.csv", b"text,label\n\xff,1", "is not UTF-8"),
        (CLASSES, "a.csv", "text\na\n".encode("utf-16"), "is not UTF-8"),
        (CLASSES, "a.jsonl", ROW + '1}\n{"t', "line 2 is not"),
        (CLASSES, "a.jsonl", ROW + "1}\n[]", "not a JSON object"),
        (CLASSES, "a.xlsx", "", "must end in one of"),
        (CLASSES, "a.csv", 'text,label\n"a"b,c\n', "Correct the quotes"),
        (CLASSES, "a.csv", "text,label,label\na,b,c\n", "'label' more than"),
        (CLASSES, "a.csv", "text,Label,label\na,b,c\n", "--label-column"),
        (CLASSES, "a.csv", "text,label\na,b\0\n", "line 2 contains a NUL"),
        (CLASSES, "a.csv", "text;label\na;b\n", "no column with a usual name"),
        (CLASSES, "a.jsonl", ROW + "null}", "None.*a label"),
        (CLASSES, "a.jsonl", ROW + '{"b": 1}}', "a label"),
        (CLASSES, "a.jsonl", ROW + '["b", null]}', "a list of labels"),
        (CLASSES, "a.jsonl", ROW + "NaN}", "contains NaN"),
        (CLASSES, "a.jsonl", ROW + '1, "label": 2}', "line 1.*'label' twice"),
        (CLASSES, "a.jsonl", ROW + "1" * 5000 + "}", "line 1 is not JSON"),
        ("regression", "a.tsv", "text\tscore\na\t1\nb\t\n", "line 3.*''.*a number"),
        ("regression", "a.tsv", "text\tscore\na\tnan\n", "line 2.*'nan'.*a number"),
        ("regression", "a.tsv", "text\tscore\na\tinf\n", "line 2.*a number"),
        ("regression", "a.tsv", "text\tscore\na\t1_0\n", "line 2.*'1_0'.*a number"),
        ("regression", "a.jsonl", '{"text": "a", "score": true}', "line 1.*True"),
        ("regression", "a.jsonl", '{"text": "a", "score": 1e999}', "line 1.*inf"),
        ("regression", "a.tsv", "text\tvalue\na\t1\n", "a score.*--label-column"),
        ("similarity", "a.tsv", "text\tscore\na\t1\n", "text_pair.*--text-pair-col"),
        (TAGS, "a.jsonl", WORDS + '"O"}', "line 1.*'O'.*a list of labels"),
        (TAGS, "a.jsonl", WORDS + '[" "]}', "line 1.*a list of labels"),
        (TAGS, "a.jsonl", '{"words": null, "tags": ["O"]}', "1.*None.*a list of texts"),
        (TAGS, "a.tsv", "text\tlabel\na\tb\n", "starts with 'text' and 'label', as a"),
        (TAGS, "a.conll", "a b\tc\nd e\tf\n", "'a b' and 'c', as a table .*CoNLL"),
        ("masked-lm", "a.txt", b"\xff\n", "is not UTF-8"),
        ("masked-lm", "a.txt", "\n \n", "contains no text"),
        ("masked-lm", "a.raw", "a\0\n", "NUL"),
        (CHOICES, "a.tsv", HEAD + "?\tx\ty\t\n", "a.tsv, line 2 has the answer ''"),
        (CHOICES, "a.tsv", HEAD + "?\tx\ty\t²\n", "a.tsv, line 2 has the answer"),
        (
            *(CHOICES, "a.tsv", "question\tA\tB\tC\tanswer\n?\tx\ty\t\tC\n"),
            "a.tsv, line 2 has the answer 2",
        ),
        (CHOICES, "a.tsv", HEAD + "?\t\ty\tB\n", "line 2 has no choice 0"),
        (CHOICES, "a.jsonl", ASKED, "line 1.*'xy'.*a list of texts"),
        (CHOICES, "a.tsv", "question\tAB\tanswer\n?\tx\tA\n", "it choices; or A, B"),
        (CHOICES, "a.tsv", "query_\tA\tanswer\n?\tx\tA\n", "question.*--text-pair-co"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind, name, contents, message, tmp_path):
    path = write(tmp_path, name, contents)
    with pytest.raises(ValueError, match=message) as error:
        read(kind, path)
    assert name in str(error.value)


def test_labels_differ_by_their_names_alone(tmp_path):
    table = '\ufefftext\tlabel\r\na\tgood \r\nb\t good\r\n"c\tbad\r\n'
    data = read("classification", write(tmp_path, "a.tsv", table))
    assert data.head == {"labels": ["bad", "good"]}
    assert list(data.y) == ["good", "good", "bad"]
    assert list(data.x) == ["a", "b", '"c']
    rows = "".join(
        f'{{"text": "a", "label": {n}}}\n' for n in ("1", '"1"', "1.0", "1e0")
    )
    data = read("classification", write(tmp_path, "a.jsonl", rows + "\n"))
    assert data.head == {"labels": ["1"]}


def test_tags_that_are_numbers_are_names(tmp_path):
    rows = '{"words": ["a", "b"], "tags": [2, "1 "]}'
    data = read("token-classification", write(tmp_path, "a.jsonl", rows))
    assert data.y == [["2", "1"]]
    assert data.head == {"labels": ["1", "2"]}


TSV = "text\tlabel\na\tgood\nb\tbad\n"
CONLL = "Ada\tB-person\nran\tO\n"


@pytest.mark.parametrize(
    ("kind", "name", "train", "dev", "message"),
    [
        ("classification", "a.tsv", TSV, TSV, "contain the same examples"),
        (
            *("classification", "a.tsv", TSV, f"{TSV}c\tgod\n"),
            r"dev\.tsv, line 4 has the label 'god', .* Did you mean 'good'\?",
        ),
        (
            *("classification", "a.csv", "text,label\na,x\nb,y\n"),
            *('text,label\n"a\nb",x\nc,neutral\n', "line 4 .*add examples of it"),
        ),
        (
            *("classification", "a.tsv", "text\tlabel\na\tgood\n", TSV),
            "1 classes: good. There is nothing to learn from one label",
        ),
        (
            *("token-classification", "a.conll", CONLL, f"{CONLL}\nOslo\tB-persn\n"),
            "line 4 has the label 'B-persn', .* mean 'B-person'",
        ),
        (
            *("token-classification", "a.jsonl"),
            '{"words": ["a", "b"], "tags": ["O", "B"]}',
            '\n{"words": ["a"], "tags": ["O"]}\n{"words": ["b"], "tags": ["I"]}',
            "line 3 has the label 'I'",
        ),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(
    kind, name, train, dev, message, tmp_path
):
    paths = [
        write(tmp_path, f"{n}.{name[2:]}", x) for n, x in (("a", train), ("dev", dev))
    ]
    with pytest.raises(ValueError, match=message):
        check_files(*(read(kind, path) for path in paths))


def test_choices_stand_in_the_order_of_their_names(tmp_path):
    rows = "question\tchoice10\tchoice2\tchoice1\tanswer\n?\tlast\tb\ta\t 2\n"
    data = read("multiple-choice", write(tmp_path, "a.tsv", rows))
    assert data.x[1] == [["a", "b", "last"]]
    assert data.y == [2]


def test_quotes_of_csv_hold_what_they_may(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\r\n"a, ""b""\r\nc",x\r\n')
    assert read_table(path).columns == {"text": ['a, "b"\r\nc'], "label": ["x"]}


def test_a_column_has_one_role(tmp_path):
    table = read_table(write(tmp_path, "a.tsv", "text\tlabel\na\tb\n"))
    with pytest.raises(ValueError, match=r"a\.tsv: .*'text' would be the text and lab"):
        describe(table, [("text", "text"), ("pair", None), ("label", "text")])
    assert "label = 'label'" in describe(table, [("text", "text"), ("label", "label")])


ROWS = [{"text": "a river"}, {"text": "naïve 🙂"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", "a river\nnaïve 🙂\n"),
        ("a.v2.txt.GZ", "a river\nnaïve 🙂\n"),
        ("a.tsv.gz", "text\na river\nnaïve 🙂\n"),
        ("a.jsonl.gz", '{"text": "a river"}\n\n{"text": "naïve 🙂"}\n'),
    ],
)
def test_compressed_files_are_read(name, content, tmp_path):
    path = Path(tmp_path, name)
    path.write_bytes(gzip.compress(content.encode()))
    rows = FileRows(path)
    assert list(rows) == ROWS
    assert rows.position == path.stat().st_size


@pytest.mark.parametrize(
    "damage", [lambda file: file[:-9], lambda file: b"text\n", lambda _: b"\x1f\x8b"]
)
def test_damaged_files_are_refused(damage, tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(b"a river\n" * 99)))
    with pytest.raises(ValueError, match=r"a\.gz is damaged"):
        list(FileRows(path))
