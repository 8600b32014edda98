"""Documents are read part by part, and progress is that of the bytes that were read."""

import gzip
import json
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.pretraining import prepare_examples, train_vocabulary_on
from keras_albert.pretraining.prepare import documents
from keras_albert.pretraining.prepare.documents import (
    InputPart,
    find_parts,
    progress_of_part,
    read_documents,
    reported_progress,
)
from keras_albert.pretraining.prepare.parts import PartPreparation
from tests.one_backend import on_one_backend
from tests.pretraining.texts import make_documents, plain

pytestmark = on_one_backend

pytest.importorskip("apache_beam")


def read(path, part_size=2**40, field="text"):
    counters = Counter()
    parts = find_parts([str(path)], part_size)
    sections = [s for part in parts for s in read_documents(part, field, counters)]
    return sections, counters


def lines_of(path, **kwargs):
    return [section.lines for section in read(path, **kwargs)[0]]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["", "  ", "a", "bb b", "é", "ccc\r"]), max_size=20),
    part_size=st.integers(1, 12),
    ends=st.booleans(),
)
def test_documents_however_a_file_is_cut(tmp_path_factory, lines, part_size, ends):
    text = "\n".join(lines) + "\n" * ends
    path = tmp_path_factory.mktemp("cut") / "a.txt"
    path.write_bytes(text.encode())
    expected, document = [], []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            document.append(line.strip())
        elif document:
            expected.append(document)
            document = []
    assert lines_of(path, part_size=part_size) == expected


@settings(max_examples=20, deadline=None)
@given(part_size=st.integers(1, 60), texts=st.lists(st.text(max_size=9), max_size=6))
def test_json_lines_however_cut(tmp_path_factory, part_size, texts):
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = [[s.strip() for s in t.splitlines() if s.strip()] for t in texts]
    found = lines_of(path, part_size=part_size)
    assert found == [document for document in expected if document]


def test_gzip_reads_as_the_plain_file_does(tmp_path):
    text = "\ufeffone\n\ntwo\nthree\n\n\n\nfour"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "a.txt.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    expected = [["one"], ["two", "three"], ["four"]]
    assert lines_of(tmp_path / "a.txt") == expected
    assert lines_of(tmp_path / "a.txt.gz") == expected
    keys = [[s.key for s in read(tmp_path / f"a.txt{end}")[0]] for end in ("", ".gz")]
    assert keys[0] == keys[1]


def test_broken_lines_are_counted_and_skipped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\xff\xfe bad\nbetter\n\n\xc3\n\nlast\n")
    sections, counters = read(path)
    assert [s.lines for s in sections] == [["good", "better"], ["last"]]
    assert counters == {"lines dropped: not UTF-8": 2, "documents": 2}
    path = tmp_path / "a.jsonl"
    rows = ['{"text": "one"}', "{", '{"other": 1}', "[1]", '{"text": null}', "7"]
    rows += ['{"text": "\\ud800"}', '{"text": " "}', "[" * 9999]
    rows += ['{"text": "two\\n\\n"}']
    path.write_text("\n".join(rows))
    sections, counters = read(path)
    assert [s.lines for s in sections] == [["one"], ["two"]]
    assert counters == {
        "documents": 2,
        "documents dropped: empty": 1,
        "lines dropped: broken JSON": 3,
        "lines dropped: no text in 'text'": 4,
    }


# As datatrove's `JsonlWriter` and Dolma write them.
@pytest.mark.parametrize("name", ["00000.jsonl.gz", "web-0000.json.gz"])
def test_cleaned_documents_of_other_programs(tmp_path, name):
    rows = [{"text": f"one\ntwo {n}", "id": "0/1"} for n in range(3)]
    with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert lines_of(tmp_path / name) == [["one", f"two {n}"] for n in range(3)]
    message = rf"{name}, line 1 has no field 'body'; its fields are: 'text', 'id', .*"
    with pytest.raises(ValueError, match=f"{message}`text_field`"):
        read(tmp_path / name, field="body")


def test_a_gzip_file_that_was_cut_short_gives_what_it_has(tmp_path):
    path = tmp_path / "a.txt.gz"
    text = "\n\n".join(f"document {i} {i**9}" for i in range(20000))
    path.write_bytes(gzip.compress(text.encode())[:-5000])
    sections, counters = read(path)
    assert 100 < len(sections) < 20000
    assert counters["files dropped from a place on: broken gzip"] == 1


def test_endless_lines_are_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 50)
    path = tmp_path / "a.txt"
    path.write_text("a\n" + "x" * 1000 + "\nb\n\n" + "y" * 120 + "\n\nc\n" + "z" * 60)
    for part_size in (2**40, 7):
        sections, counters = read(path, part_size=part_size)
        assert [s.lines for s in sections] == [["a", "b"], ["c"]]
        assert counters["lines dropped: too long"] == 3


def test_a_very_long_document_comes_in_sections_of_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "SECTION_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    path.write_text("12345\n67890\nabcde\nfghij\nklm\n\nother\n")
    sections, counters = read(path)
    assert [len(s.lines) for s in sections] == [2, 2, 1, 1]
    assert [s.number for s in sections] == [0, 1, 2, 0]
    assert len({s.key for s in sections[:3]}) == 1
    assert sections[3].key != sections[0].key
    assert counters["documents"] == 2


def test_inputs_that_match_nothing_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"nothing\*.txt"):
        find_parts([str(tmp_path / "nothing*.txt")], 1)


def test_globs_that_overlap_count_a_file_once(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text("x")
    parts = find_parts([str(tmp_path / "*.txt"), str(tmp_path / "a.txt")], 99)
    assert [part.path[-5:] for part in parts] == ["a.txt", "b.txt"]


def test_bytes_are_reported_while_they_are_read(tmp_path, tiny_proto, monkeypatch):
    text = plain(make_documents(40)).encode()
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    split_of = PartPreparation._split_of

    def slowly(*arguments):
        time.sleep(0.02)
        return split_of(*arguments)

    monkeypatch.setattr(PartPreparation, "_split_of", slowly)
    calls = []

    def prepare():
        calls.clear()
        return prepare_examples(
            str(tmp_path / "*.*"),
            tmp_path / "out",
            tiny_proto,
            sequence_length=64,
            held_out=0.2,
            part_size=4000,
            progress=lambda *call: calls.append(call),
        )

    with_progress = prepare()
    done = [count for count, _ in calls]
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert calls[-1] == (total, total)
    # Finished parts are counted, and progress does not change the results.
    assert prepare() == with_progress
    assert calls[-1] == (total, total)


def test_the_texts_of_a_vocabulary_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(plain(make_documents(40)))
    calls = []
    train_vocabulary_on(path, 70, progress=lambda *call: calls.append(call))
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)


def test_another_machine_reports_nothing(tmp_path):
    progress_of_part("", 0)(5)
    progress_of_part(str(tmp_path / "elsewhere"), 0)(5)
    with reported_progress([InputPart("a", 9, 0.0)], None) as file:
        assert file == ""
