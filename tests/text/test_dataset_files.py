"""Files in the formats of SQuAD and CoNLL."""

import json

import pytest

from keras_albert.text import read_conll, read_squad

ANSWER = {"text": "Rome", "answer_start": 0}


def write_squad(tmp_path, content):
    path = tmp_path / "squad.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def squad(*qas, **changes):
    paragraph = {"context": "Rome, then Bonn.", "qas": list(qas)} | changes
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]}


def ask(identity="1", **changes):
    return {"id": identity, "question": "Where?", "answers": [ANSWER]} | changes


def test_both_versions_are_read(tmp_path):
    content = squad(
        ask("1", answers=[ANSWER, {"text": "Bonn", "answer_start": 11}]),
        ask("2", answers=[], is_impossible=True, plausible_answers=[ANSWER]),
    )
    file = read_squad(write_squad(tmp_path, content))
    assert file.ids == ["1", "2"]
    assert file.x == (["Where?"] * 2, ["Rome, then Bonn."] * 2)
    assert file.answers == [
        {"text": ["Rome", "Bonn"], "answer_start": [0, 11]},
        {"text": [], "answer_start": []},
    ]
    assert file.has_unanswerable
    assert not file.take(slice(1)).has_unanswerable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"squad\.json .*is damaged.*JSONDecodeError"),
        ([], "has nothing as 'data'"),
        ({"data": {}}, "has {} as 'data', but SQuAD's format needs a list"),
        ({"data": []}, "contains no questions"),
        ({"data": ["a"]}, r"data\[0\] has nothing as 'paragraphs'"),
        (squad(ask(), context=None), r"paragraphs\[0\] has nothing as 'context'"),
        (squad(ask(question=3)), r"qas\[0\] has 3 as 'question'"),
        (squad(ask(answers="Rome")), r"qas\[0\] has 'Rome' as 'answers'"),
        (squad(ask(answers=[{"text": "Rome"}])), "nothing as 'answer_start'"),
        (
            squad(ask(answers=[{"text": "Rome", "answer_start": True}])),
            "True as 'answer_start'",
        ),
        (squad(ask(is_impossible=True)), "`is_impossible` and 1 answers"),
        (squad(ask(), ask()), r"qas\[1\] has the same id as .*qas\[0\]: '1'"),
    ],
)
def test_errors_name_the_place_in_the_file(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_squad(write_squad(tmp_path, content))


@pytest.mark.shared_data
def test_real_files(shared_data):
    folder = shared_data / "squad"
    train = read_squad(folder / "train_union_14articles.json")
    assert len(train.ids) == 5449
    assert sum(not answer["text"] for answer in train.answers) == 348
    dev = read_squad(folder / "dev-v2.0.reconstructed.json")
    assert len(dev.ids) == 11873
    assert sum(not answer["text"] for answer in dev.answers) == 5945


def write_conll(tmp_path, data):
    path = tmp_path / "file.conll"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_tabs_spaces_and_further_columns(tmp_path):
    tabs = "New York\tB-place\n\t\nof\tO\n \n\n"
    assert read_conll(write_conll(tmp_path, tabs)) == (
        [["New York"], ["of"]],
        [["B-place"], ["O"]],
    )
    spaces = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\r\nrejects VBZ I-VP O\r\n"
    assert read_conll(write_conll(tmp_path, spaces)) == (
        [["EU", "rejects"]],
        [["I-ORG", "O"]],
    )
    assert read_conll(write_conll(tmp_path, "1 a B-x\n"), word_column=1) == (
        [["a"]],
        [["B-x"]],
    )


def test_byte_order_mark_and_unusual_line_separators(tmp_path):
    words, _ = read_conll(write_conll(tmp_path, b"\xef\xbb\xbfa\tO\nb\xe2\x80\xa8c\tO"))
    assert words == [["a", "b\u2028c"]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a\tO\nb\n", r"file\.conll, line 2: 'b' should be a word and its tag"),
        ("a O\nb\t\n", r"file\.conll, line 2: 'b'"),
        (b"a\tO\n\xff\tO\n", r"file\.conll .*UnicodeDecodeError.*`iconv`"),
        ("\n\n", r"file\.conll contains no words"),
        ("", r"file\.conll contains no words"),
    ],
)
def test_errors_name_the_line(tmp_path, data, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write_conll(tmp_path, data))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.conll"):
        read_conll(tmp_path / "none.conll")


@pytest.mark.shared_data
def test_wnut(shared_data):
    folder = shared_data / "ner" / "wnut17"
    words, tags = read_conll(folder / "wnut17train.conll")
    assert (len(words), sum(map(len, words))) == (3394, 62730)
    assert [len(row) for row in tags] == [len(row) for row in words]
