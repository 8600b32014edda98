"""The same texts become the same files on any of Beam's runners."""

import pytest

from keras_albert.pretraining import prepare_examples, train_vocabulary_on
from tests.pretraining.texts import make_documents, plain

pytest.importorskip("apache_beam")

PROCESSES = {"direct_num_workers": 2, "direct_running_mode": "multi_processing"}
DASK = {"runner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


@pytest.fixture(scope="module")
def prepare(tmp_path_factory, tiny_proto):
    """A function that prepares some texts, and returns all files."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text(plain(make_documents(30)), encoding="utf-8")

    def run(options):
        output = tmp_path_factory.mktemp("prepared")
        sizes = {"part_size": 2000, "pipeline_options": options}
        arguments = folder / "a.txt", output, tiny_proto, 64, 0.2
        parts = prepare_examples(*arguments, **sizes).shards["train"]
        assert len(parts) > 5
        # Of a few lines, which the workers draw.
        sizes |= {"num_lines": 20, "hard_vocab_limit": False}
        train_vocabulary_on(folder / "a.txt", 60, output=output / "of_few", **sizes)
        return {
            str(path.relative_to(output)): path.read_bytes()
            for path in output.rglob("*")
            if path.is_file()
        }

    return run


@pytest.fixture(scope="module")
def in_one_process(prepare):
    return prepare(None)


def test_two_processes(prepare, in_one_process):
    assert prepare(PROCESSES) == in_one_process


def test_two_workers_of_dask(prepare, in_one_process, tmp_path, tiny_proto):
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        # By default a worker takes 128 parts at a time.
        options = DASK | {"address": cluster.scheduler_address, "partition_size": 1}
        assert prepare(options) == in_one_process
        (tmp_path / "a.txt").write_bytes(b"BZh91AY&SY")
        arguments = tmp_path / "a.txt", tmp_path / "out", tiny_proto
        with pytest.raises(ValueError, match=r"a\.txt is no text .* as bzip2 does"):
            prepare_examples(*arguments, pipeline_options=options)
