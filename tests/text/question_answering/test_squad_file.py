import json

import pytest

from keras_albert.text import read_squad

ANSWER = {"text": "Rome", "answer_start": 0}


def write(tmp_path, content):
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
    file = read_squad(write(tmp_path, content))
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
        ("{", "no JSON in UTF-8"),
        ([], "has nothing as 'data'"),
        ({"data": {}}, "has {} as 'data', and SQuAD's form has a list"),
        ({"data": []}, "holds no questions"),
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
        (squad(ask(), ask()), r"qas\[1\] has the id '1', as .*qas\[0\] has"),
    ],
)
def test_errors_name_the_place_in_the_file(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_squad(write(tmp_path, content))


def test_invalid_utf8_raises(tmp_path):
    path = tmp_path / "squad.json"
    path.write_bytes(b'{"data": "\xff"}')
    with pytest.raises(ValueError, match="no JSON in UTF-8"):
        read_squad(path)


@pytest.mark.shared_data
def test_real_files(shared_data):
    folder = shared_data / "squad"
    train = read_squad(folder / "train_union_14articles.json")
    assert len(train.ids) == 5449
    assert sum(not answer["text"] for answer in train.answers) == 348
    dev = read_squad(folder / "dev-v2.0.reconstructed.json")
    assert len(dev.ids) == 11873
    assert sum(not answer["text"] for answer in dev.answers) == 5945
