"""A small prepared directory, written without Beam."""

import numpy as np

from keras_albert.pretraining.prepared_files import (
    METADATA_FILE,
    VOCABULARY_FILE,
    Example,
    ExampleWriter,
    PreparedMetadata,
    shard_name,
)

VOCABULARY_SIZE = 130
SEQUENCE_LENGTH = 24


def write_prepared(directory, proto, train=96, held_out=24, seed=0):
    """Write examples of consecutive tokens, which a model can learn."""
    directory.mkdir(parents=True)
    (directory / VOCABULARY_FILE).write_bytes(proto)
    shards, files = {}, {}
    for split, count in (("train", train), ("held_out", held_out)):
        rng = np.random.default_rng([seed, count])
        name = shard_name(split, "00000")
        shards[split] = [name]
        with (directory / name).open("wb") as stream:
            writer = ExampleWriter(stream, VOCABULARY_SIZE, name)
            for example in _examples(rng, count):
                writer.add(example)
            writer.close()
        files[name] = writer.facts
    metadata = PreparedMetadata(
        SEQUENCE_LENGTH, VOCABULARY_SIZE, shards, {}, {"documents": 8}, files=files
    )
    (directory / METADATA_FILE).write_text(metadata.to_json())
    return directory


def _examples(rng, count):
    for number in range(count):
        length = int(rng.integers(12, SEQUENCE_LENGTH - 3))
        first = int(rng.integers(5, 40))
        ids = np.arange(first, first + length, dtype="int32")
        boundary = int(rng.integers(4, length - 4))
        yield Example(ids, boundary, number % 8)
