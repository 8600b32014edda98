import bz2
import gzip
import json
import lzma
import os
import pickle
import signal
import subprocess
from collections import Counter
from dataclasses import astuple

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.pretraining import (
    PretrainingData,
    prepare_examples,
    train_vocabulary_on,
)
from keras_albert.pretraining.prepare import parts, pipeline
from keras_albert.pretraining.prepare.documents import find_parts
from keras_albert.pretraining.prepare.pipeline import in_worker
from keras_albert.pretraining.prepare.sentence_pairs import PairSettings
from keras_albert.pretraining.prepared_files import ExampleFile
from tests.one_backend import on_one_backend
from tests.pretraining.texts import make_documents, plain
from tests.warm_python.start import REAL_PYTHON
from tests.word_pieces import WORD_PIECES, word_proto

pytestmark = on_one_backend

pytest.importorskip("apache_beam")
pickler = pytest.importorskip("apache_beam.internal.pickler")

DOCUMENTS = make_documents(90)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The documents in three files, each of a different kind."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(plain(DOCUMENTS[:50]), encoding="utf-8")
    with gzip.open(folder / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(plain(DOCUMENTS[50:70]))
    rows = [json.dumps({"text": "\n".join(d)}) for d in DOCUMENTS[70:]]
    (folder / "c.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder


def prepare(corpus, output, proto, **kwargs):
    settings = {"sequence_length": 64, "held_out": 0.2, **kwargs}
    return prepare_examples(str(corpus / "*"), output, proto, **settings)


def examples_in(directory):
    """All examples, by split, sorted."""
    metadata = json.loads((directory / "metadata.json").read_text())
    found = {}
    for split, names in metadata["shards"].items():
        found[split] = []
        for name in names:
            file = ExampleFile(str(directory / name), metadata["files"][name])
            documents = file.documents
            for row in range(len(file)):
                a, b = file.segments(row)
                found[split].append((int(documents[row]), a.tolist(), b.tolist()))
        found[split].sort()
    return found


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory, tiny_proto):
    output = tmp_path_factory.mktemp("whole") / "prepared"
    prepare(corpus, output, tiny_proto)
    return output


def test_a_word_piece_vocabulary(tmp_path):
    (tmp_path / "a.txt").write_text(plain(DOCUMENTS[:9]), encoding="utf-8")
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in WORD_PIECES), encoding="utf-8")
    output = tmp_path / "prepared"
    prepare_examples(str(tmp_path / "a.txt"), output, path, sequence_length=32)
    data = PretrainingData(output)
    assert data.tokenizer.proto == word_proto()
    x, _, weights = data.batches(4).batch(0)
    assert set(np.unique(x["token_ids"])) > {2, 3, 4}
    assert weights["masked_lm"].sum() > 0


def test_all_there_is_and_nothing_else(whole):
    names = [path.stem for path in (whole / "parts").iterdir()]
    assert len(names) == 3
    shards = [
        f"{split}-{name}.arrow" for split in ("held_out", "train") for name in names
    ]
    assert {path.name for path in whole.iterdir()} == {
        *("metadata.json", "parts", "vocabulary.spm", *shards)
    }
    counters = json.loads((whole / "metadata.json").read_text())["counters"]
    found = examples_in(whole)
    for split in ("train", "held_out"):
        assert len(found[split]) == counters[f"examples: {split}"] > 20
    assert counters["documents"] == 90
    kept = sum(len(a) + len(b) for rows in found.values() for _, a, b in rows)
    dropped = sum(n for name, n in counters.items() if name.startswith("tokens drop"))
    assert kept + dropped == counters["tokens"]


def test_no_document_is_in_both_splits(whole):
    found = examples_in(whole)
    train, held_out = ({row[0] for row in found[s]} for s in ("train", "held_out"))
    assert not train & held_out
    assert 0.05 < len(held_out) / len(train | held_out) < 0.4


def test_what_was_prepared_is_read(whole):
    data = PretrainingData(whole)
    assert data.num_tokens == sum(
        len(a) + len(b) for _, a, b in examples_in(whole)["train"]
    )
    masked = real = 0
    for step in range(10):
        x, y, _ = data.batches(32).batch(step)
        masked += (y["masked_lm"] > 0).sum()
        real += data.masking.word_starts.in_words(x["token_ids"]).sum()
        assert not (x["token_ids"] == 1).any()
    assert abs(masked / real - 0.15) < 0.05


THREADS = {"direct_num_workers": 2, "direct_running_mode": "multi_threading"}


@pytest.mark.parametrize(
    "changes", [{"part_size": 700}, {"part_size": 2000, "pipeline_options": THREADS}]
)
def test_parts_and_workers_change_nothing(corpus, tmp_path, tiny_proto, whole, changes):
    metadata = prepare(corpus, tmp_path, tiny_proto, **changes)
    assert len(metadata.shards["train"]) > 6
    assert examples_in(tmp_path) == examples_in(whole)


def test_the_seed_changes_examples_not_the_split(corpus, tmp_path, tiny_proto, whole):
    prepare(corpus, tmp_path, tiny_proto, seed=1)
    one, other = examples_in(tmp_path), examples_in(whole)
    for split in ("train", "held_out"):
        assert one[split] != other[split]
        assert {row[0] for row in one[split]} == {row[0] for row in other[split]}


_KILLED = """
import os, signal, sys
from keras_albert.pretraining import prepare_examples, prepared_files
add, calls = prepared_files.ExampleWriter.add, []
def killed(self, example):
    calls.append(1)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, example)
prepared_files.ExampleWriter.add = killed
prepare_examples(sys.argv[1], sys.argv[2], sys.argv[3], 64, 0.2)
"""


def test_the_next_run_does_the_rest_of_a_killed_one(
    corpus, tmp_path, tiny_proto, whole
):
    (tmp_path / "v.spm").write_bytes(tiny_proto)
    output = tmp_path / "prepared"
    total = sum(map(len, examples_in(whole).values()))
    arguments = [str(corpus / "*"), str(output), str(tmp_path / "v.spm")]
    killed = subprocess.run(
        [REAL_PYTHON, "-c", _KILLED, *arguments, str(total - 10)],
        check=False,
        capture_output=True,
        env=os.environ,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = contents(output)
    expected = contents(whole)
    shards = {name for name in left if name.endswith(".arrow")}
    assert 0 < len(shards) < 6
    assert all(left[name] == expected[name] for name in shards)
    assert "metadata.json" not in left
    assert any(name.startswith("temporary") for name in left)
    before = {name: (output / name).stat().st_mtime_ns for name in shards}
    with pytest.raises(ValueError, match="metadata"):
        PretrainingData(output)
    prepare(corpus, output, tiny_proto)
    assert contents(output) == expected
    # Finished files were not written again.
    assert all((output / n).stat().st_mtime_ns == t for n, t in before.items())


def test_another_run_replaces_what_is_not_shared(corpus, tmp_path, tiny_proto, whole):
    prepare(corpus, tmp_path, tiny_proto, part_size=700)
    (tmp_path / "notes.arrow").write_text("mine")
    prepare(corpus, tmp_path, tiny_proto)
    left = contents(tmp_path)
    assert left.pop("notes.arrow") == b"mine"
    assert left == contents(whole)
    again = {name: (tmp_path / name).stat().st_mtime_ns for name in left}
    prepare(corpus, tmp_path, tiny_proto)
    unchanged = [n for n in left if (tmp_path / n).stat().st_mtime_ns == again[n]]
    assert len(unchanged) >= 9  # all shards and reports


def test_another_input_leaves_the_parts_of_the_others(tmp_path, tiny_proto):
    source, output = tmp_path / "texts", tmp_path / "out"
    source.mkdir()
    # The new file is the first one.
    for name, few in (("b.txt", DOCUMENTS[:20]), ("a.txt", DOCUMENTS[20:40])):
        (source / name).write_text(plain(few))
        metadata = prepare(source, output, tiny_proto)
        shards = {x: (output / x).stat().st_mtime_ns for x in metadata.shards["train"]}
        if name == "b.txt":
            before = shards
    assert len(shards) == 2
    assert before.items() < shards.items()
    assert metadata.counters["documents"] == 40


def test_parts_that_wrote_elsewhere_are_named(tmp_path, tiny_proto, monkeypatch):
    (tmp_path / "a.txt").write_text(plain(DOCUMENTS[:20]))
    arguments = tmp_path / "a.txt", tmp_path / "out", tiny_proto, 64, 0.2
    shards = prepare_examples(*arguments).shards["train"]
    (tmp_path / "out" / shards[0]).unlink()
    message = rf"Of 2 files, {shards[0]} are missing in .* workers share\?"
    with pytest.raises(ValueError, match=message):
        prepare_examples(*arguments)
    # As of a worker on another machine.
    monkeypatch.setattr(parts, "write_result", lambda *_: None)
    with pytest.raises(ValueError, match=r"left no results in .*temporary: is it on"):
        prepare_examples(*arguments)


_IN_WORKER = """
import json, sys
from apache_beam.internal import pickler
with open(sys.argv[1], "rb") as file:
    work, merge = (pickler.loads(each) for each in json.loads(file.read()))
print(json.dumps(merge([work(json.loads(sys.argv[2]))])))
heavy = {"keras", "keras_hub", "tensorflow", "torch", "jax"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_worker_imports_neither_keras_nor_a_backend(corpus, tmp_path, tiny_proto):
    pairs = PairSettings(64, 0.1, 0, "en")
    settings = parts.PreparationSettings(
        str(tmp_path / "out"), tiny_proto, pairs, 0.2, "text"
    )
    part = astuple(find_parts([str(corpus / "a.txt")], 2**20)[0])
    for names in (
        [("prepare_part", pickle.dumps(settings)), ("merge_reports",)],
        [("sample_part", "text", 1.0, ""), ("merge_samples", 1000)],
    ):
        pickled = [pickler.dumps(in_worker(*name)).decode() for name in names]
        (tmp_path / "pickled").write_text(json.dumps(pickled))
        command = [REAL_PYTHON, "-c", _IN_WORKER, str(tmp_path / "pickled")]
        done = subprocess.run(
            [*command, json.dumps([0, part])], capture_output=True, check=False
        )
        assert not done.returncode, done.stderr.decode()
        result = json.loads(done.stdout)
        if names[0][0] == "prepare_part":
            (report,) = result.values()
            assert report["counters"]["documents"] == 50
        else:
            assert len(result) == sum(map(len, DOCUMENTS[:50]))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"counters": 1}', b'{"a": {}}'])
def test_a_damaged_report_is_written_again(tmp_path, tiny_proto, content):
    (tmp_path / "a.txt").write_text(plain(DOCUMENTS[:20]))
    arguments = tmp_path / "a.txt", tmp_path / "out", tiny_proto, 64, 0.2
    expected = prepare_examples(*arguments)
    (report,) = (tmp_path / "out" / "parts").iterdir()
    whole = report.read_bytes()
    report.write_bytes(content)
    assert prepare_examples(*arguments) == expected
    assert report.read_bytes() == whole


def test_damaged_files_are_named_or_too_many(tmp_path, tiny_proto):
    text = plain(DOCUMENTS[:40]).encode()
    (tmp_path / "a.txt").write_bytes(text)
    broken = tmp_path / "b.gz"
    broken.write_bytes(gzip.compress(text)[:-3000])
    arguments = str(tmp_path / "*.*"), tmp_path / "out", tiny_proto, 64, 0.2
    assert prepare_examples(*arguments, max_broken=0.5).broken_files == [str(broken)]
    message = (
        r"1 of 2 files are damaged, and max_broken=0.4: .*b\.gz\. Copy or download"
    )
    with pytest.raises(ValueError, match=message):
        prepare_examples(*arguments, max_broken=0.4)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a.txt.bz2", bz2.compress),
        ("a.txt.xz", lzma.compress),
        ("a.txt", lambda text: text.decode().encode("utf-16")),
        ("a.gz", lambda text: gzip.compress(b"a\0" + text)),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, tiny_proto, name, change):
    path = tmp_path / name
    path.write_bytes(change(plain(DOCUMENTS[:20]).encode()))
    message = f"{name} is not text in UTF-8, but compressed or binary"
    with pytest.raises(ValueError, match=message):
        prepare_examples(path, tmp_path / "out", tiny_proto)
    with pytest.raises(ValueError, match=message):
        train_vocabulary_on(path, 70)


def test_a_changed_file_is_prepared_again(tmp_path, tiny_proto):
    source = tmp_path / "a.txt"
    for count in (20, 21):
        source.write_text(plain(DOCUMENTS[:count]))
        metadata = prepare(
            source.parent, tmp_path.parent / f"{tmp_path.name}-out", tiny_proto
        )
        assert metadata.counters["documents"] == count


def test_a_vocabulary_of_the_same_files(corpus):
    proto = train_vocabulary_on(str(corpus / "*"), 70, num_lines=1000)
    assert proto == train_vocabulary_on([corpus / "*"], 70, num_lines=1000)
    tokenizer = AlbertTokenizer(proto)
    assert tokenizer.vocabulary_size() == 70
    assert tokenizer.detokenize(tokenizer("The Captain.")) == "the captain."


def test_a_vocabulary_is_of_the_same_lines_in_any_parts(corpus, monkeypatch):
    trained = []

    def train(lines, **_):
        trained.append(lines)
        return b""

    monkeypatch.setattr(pipeline, "train_vocabulary", train)
    # Workers return fewer lines than there are.
    monkeypatch.setattr(pipeline, "_MAX_BYTES", 100)
    for few in ({}, {"part_size": 700, "pipeline_options": THREADS}):
        train_vocabulary_on(str(corpus / "*"), 70, num_lines=150, **few)
    assert trained[0] == trained[1]
    lines = Counter(line for document in DOCUMENTS for line in document)
    assert Counter(trained[0]) <= lines
    assert len(trained[0]) == 150 < lines.total()
    counted = Counter(line for document in DOCUMENTS[:50] for line in document)
    share = sum((Counter(trained[0]) & counted).values()) / 150
    assert abs(share - counted.total() / lines.total()) < 0.15
    with pytest.raises(ValueError, match="num_lines"):
        train_vocabulary_on(str(corpus / "*"), 70, num_lines=0)


@pytest.mark.parametrize(
    "changes", [{"held_out": 1.1}, {"sequence_length": 7}, {"part_size": 0}]
)
def test_wrong_settings_are_named(corpus, tmp_path, tiny_proto, changes):
    with pytest.raises(ValueError, match=f"`{next(iter(changes))}` must be"):
        prepare(corpus, tmp_path / "out", tiny_proto, **changes)
    assert not (tmp_path / "out").exists()


def test_a_preset_lends_its_vocabulary(corpus, tmp_path, tiny_proto, whole):
    preset = tmp_path / "preset"
    tokenizer = AlbertTokenizer(tiny_proto)
    size = {"num_layers": 1, "num_heads": 1, "intermediate_dim": 8}
    AlbertBackbone(
        tokenizer.vocabulary_size(), embedding_dim=4, hidden_dim=4, **size
    ).save_to_preset(preset)
    tokenizer.save_to_preset(preset)
    prepare(corpus, tmp_path / "out", preset)
    assert contents(tmp_path / "out") == contents(whole)


def test_inputs_that_cannot_be(corpus, tmp_path, tiny_proto):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("Not today.")
    for inputs, source, message in (
        ([], tiny_proto, "There is no text in"),
        (str(corpus / "*"), tmp_path / "none.spm", "no vocabulary at"),
        (str(tmp_path / "empty.txt"), tiny_proto, r"no text in \[.*empty\.txt"),
        (str(tmp_path / "short.txt"), tiny_proto, "no training examples"),
    ):
        with pytest.raises(ValueError, match=message):
            prepare_examples(inputs, tmp_path / "out", source)
    with pytest.raises(ValueError, match="All lines are blank"):
        train_vocabulary_on(tmp_path / "empty.txt", 60)


def test_a_file_in_the_place_of_the_output_is_refused(corpus, tmp_path, tiny_proto):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OSError, match="File exists"):
        prepare_examples(str(corpus / "*"), file, tiny_proto)
    with pytest.raises(OSError, match="File exists"):
        train_vocabulary_on(str(corpus / "*"), 60, output=file)
    with pytest.raises(OSError, match="Not a directory"):
        prepare_examples(str(corpus / "*"), file / "folder", tiny_proto)
    assert file.read_text() == "mine"


def test_a_preset_in_the_place_of_the_output_is_refused(corpus, tmp_path, tiny_proto):
    metadata = tmp_path / "metadata.json"
    metadata.write_text('{"keras_version": "3.15.0"}')
    with pytest.raises(ValueError, match=r"metadata\.json belongs to something else"):
        prepare_examples(str(corpus / "*"), tmp_path, tiny_proto)
    assert metadata.read_text() == '{"keras_version": "3.15.0"}'
