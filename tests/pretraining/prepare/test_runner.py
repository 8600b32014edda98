"""The same texts become the same files on any of Beam's runners."""

import contextlib

import pytest

from keras_albert.pretraining import prepare_examples, train_vocabulary_on
from tests.one_backend import on_one_backend
from tests.pretraining.texts import make_documents, plain

pytestmark = on_one_backend

pytest.importorskip("apache_beam")

PROCESSES = {"direct_num_workers": 2, "direct_running_mode": "multi_processing"}
DASK = {"runner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "a.txt"
    path.write_text(plain(make_documents(30)), encoding="utf-8")
    return path


def prepare(text, output, proto, options):
    """Prepare several parts, and return all files."""
    sizes = {"part_size": 2000, "pipeline_options": options}
    metadata = prepare_examples(text, output, proto, 64, 0.2, **sizes)
    assert len(metadata.shards["train"]) > 5
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def in_one_process(text, tmp_path_factory, tiny_proto):
    return prepare(text, tmp_path_factory.mktemp("one"), tiny_proto, None)


def test_two_processes(text, tmp_path, tiny_proto, in_one_process):
    assert prepare(text, tmp_path / "out", tiny_proto, PROCESSES) == in_one_process


def test_two_workers_of_dask(text, tmp_path, tiny_proto, in_one_process):
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        # By default a worker takes 128 parts at a time.
        options = DASK | {"address": cluster.scheduler_address, "partition_size": 1}
        assert prepare(text, tmp_path / "out", tiny_proto, options) == in_one_process
        # With fewer lines than there are.
        sizes = {"num_lines": 50, "part_size": 2000}
        expected = train_vocabulary_on(text, 60, **sizes)
        sizes |= {"pipeline_options": options, "output": tmp_path / "vocabulary"}
        assert train_vocabulary_on(text, 60, **sizes) == expected
        (tmp_path / "a.txt").write_bytes(b"BZh91AY&SY")
        arguments = tmp_path / "a.txt", tmp_path / "no", tiny_proto
        with pytest.raises(ValueError, match=r"a\.txt is not text"):
            prepare_examples(*arguments, pipeline_options=options)
        # Beam leaves them open.
        with contextlib.suppress(ValueError):
            while True:
                distributed.default_client().close()
