"""Compare three file formats for examples: Arrow IPC, ArrayRecord and TFRecord.

    python benchmarks/example_files.py

Writes the same synthetic examples (token ids of two bytes, word starts, a boundary) to
each, and reads them as NumPy arrays in batches: in file order, and in random order, as
required for shuffling. Uses pyarrow, array_record and tensorflow, and skips missing
ones. The format of `prepare_examples` was chosen with this benchmark.
"""

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

import numpy as np

from keras_albert.pretraining.prepared_files import Example, ExampleFiles, ExampleWriter


def make_examples(count: int, length: int) -> list[Example]:
    generator = np.random.default_rng(0)
    examples = []
    for number in range(count):
        ids = np.minimum(generator.zipf(1.3, length) + 4, 29999).astype(np.int32)
        examples.append(Example(ids, length // 2, number))
    return examples


class Arrow:
    needs = "pyarrow"

    def __init__(self, path: Path):
        self.path = path

    def write(self, examples: list[Example]) -> None:
        with self.path.open("wb") as stream:
            writer = ExampleWriter(stream, 30000, self.path.name)
            for example in examples:
                writer.add(example)
            writer.close()
        self.facts = {self.path.name: writer.facts}

    def open(self) -> None:
        self.files = ExampleFiles([str(self.path)], self.facts)

    def read(self, rows: np.ndarray) -> int:
        first, second = self.files.segments(rows)
        return len(first.values) + len(second.values)


class ArrayRecord:
    needs = "array_record"

    def __init__(self, path: Path):
        self.path = path

    def write(self, examples: list[Example]) -> None:
        from array_record.python import array_record_module

        writer = array_record_module.ArrayRecordWriter(str(self.path), "group_size:1")
        for ids, boundary, document in examples:
            head = np.array([boundary, document, len(ids)], np.uint64).tobytes()
            writer.write(head + ids.astype(np.uint16).tobytes())
        writer.close()

    def open(self) -> None:
        from array_record.python import array_record_module

        self.reader = array_record_module.ArrayRecordReader(str(self.path))

    def read(self, rows: np.ndarray) -> int:
        parts = []
        for record in self.reader.read(rows.tolist()):
            length = int(np.frombuffer(record, np.uint64, 3)[2])
            parts.append(np.frombuffer(record, np.uint16, length, 24).astype(np.int32))
        return len(np.concatenate(parts))


class TFRecord:
    """TFRecord, which can be read only in file order."""

    needs = "tensorflow"

    def __init__(self, path: Path):
        self.path = path

    def write(self, examples: list[Example]) -> None:
        import tensorflow as tf

        def feature(values):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

        with tf.io.TFRecordWriter(str(self.path)) as writer:
            for ids, boundary, _ in examples:
                features = {
                    "token_ids": feature(ids.tolist()),
                    "boundary": feature([boundary]),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())

    def open(self) -> None:
        import tensorflow as tf

        self.batches = {}
        self.dataset = tf.data.TFRecordDataset(str(self.path))
        self.kind = {
            "token_ids": tf.io.RaggedFeature(tf.int64),
            "boundary": tf.io.FixedLenFeature([], tf.int64),
        }
        self.parse = tf.io.parse_example

    def read_all(self, batch_size: int) -> int:
        batches = self.dataset.batch(batch_size).map(
            lambda records: self.parse(records, self.kind)
        )
        return sum(len(batch["token_ids"].flat_values.numpy()) for batch in batches)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=125)
    parser.add_argument("--batch-size", type=int, default=256)
    arguments = parser.parse_args()
    examples = make_examples(arguments.examples, arguments.length)
    tokens = arguments.examples * arguments.length
    order = np.random.default_rng(1).permutation(arguments.examples)
    for kind in (Arrow, ArrayRecord, TFRecord):
        if importlib.util.find_spec(kind.needs) is None:
            print(f"{kind.__name__}: no {kind.needs} here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "examples"
            file = kind(path)
            start = time.perf_counter()
            file.write(examples)
            report = [f"write {tokens / (time.perf_counter() - start) / 1e6:.1f}"]
            size = path.stat().st_size / tokens
            file.open()
            reads = {"in order": np.arange(arguments.examples), "shuffled": order}
            for name, rows in reads.items():
                if kind is TFRecord and name == "shuffled":
                    report.append("shuffled: no")
                    continue
                start = time.perf_counter()
                if kind is TFRecord:
                    count = file.read_all(arguments.batch_size)
                else:
                    size_of_batch = arguments.batch_size
                    cuts = range(size_of_batch, len(rows), size_of_batch)
                    count = sum(map(file.read, np.split(rows, cuts)))
                assert count == tokens, (count, tokens)
                seconds = time.perf_counter() - start
                report.append(f"{name} {tokens / seconds / 1e6:.1f}")
            print(f"{kind.__name__}: {', '.join(report)} million tokens/s,")
            print(f"    {size:.2f} bytes a token", flush=True)


if __name__ == "__main__":
    main()
