"""Output files that an interrupted run can resume."""

import pytest

from keras_albert.tools.answer_file import AnswerFile


def test_another_file_under_the_same_name_is_another_run(tmp_path):
    output = tmp_path / "answers.jsonl"
    with AnswerFile(output, "jsonl", {"bytes": 5}) as answers:
        answers.write([{"score": 1.0}])
    with AnswerFile(output, "jsonl", {"bytes": 5}) as answers:
        assert answers.done == 1
    with pytest.raises(ValueError, match="bytes was 5"):
        AnswerFile(output, "jsonl", {"bytes": 6})
    # A run without predictions leaves nothing to resume.
    (tmp_path / "answers.jsonl.partial").write_bytes(b"")
    with AnswerFile(output, "jsonl", {"bytes": 6}) as answers:
        answers.finish()
    assert list(tmp_path.iterdir()) == [output]


def test_a_table_goes_on_under_its_header(tmp_path):
    output = tmp_path / "answers.tsv"
    with AnswerFile(output, "tsv", {}) as answers:
        answers.write([{"label": "a\tb", "score": 1.0}, {"label": "\n", "score": 0.5}])
    partial = tmp_path / "answers.tsv.partial"
    # As after a crash: the last line is incomplete.
    whole = partial.read_bytes()
    partial.write_bytes(whole[:-3])
    with AnswerFile(output, "tsv", {}) as answers:
        assert answers.done == 1
        answers.write([{"score": 0.5, "label": "\n"}])
        answers.finish()
    assert output.read_bytes() == whole == b"label\tscore\na\\tb\t1.0\n\\n\t0.5\n"
    # Even the header is incomplete.
    partial.write_bytes(b"label\tsc")
    output.unlink()
    with AnswerFile(output, "tsv", {}) as answers:
        assert answers.done == 0
        answers.write([{"label": "a"}])
        answers.finish()
    assert output.read_bytes() == b"label\na\n"


def test_one_process_writes_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    output = tmp_path / "new" / "answers.jsonl"
    with AnswerFile(output, "jsonl", {}) as answers:
        # The second finds no line yet, and must not remove the file of the first.
        with pytest.raises(ValueError, match="in use: another process writes to it"):
            AnswerFile(output, "jsonl", {})
        answers.write([{"score": 1.0}])
        answers.finish()
    assert output.read_bytes() == b'{"score": 1.0}\n'
    with pytest.raises(FileExistsError, match="already exists"):
        AnswerFile(output, "jsonl", {})
    assert list(output.parent.iterdir()) == [output]


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    output = tmp_path / "new" / "answers.jsonl"
    with pytest.raises(KeyboardInterrupt), AnswerFile(output, "jsonl", {}):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
