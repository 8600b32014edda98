"""JAX compiles nothing in a program that ran before, with its compilation cache."""

import json

import keras
import pytest

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "jax", reason="only JAX compiles every program"
)

# Seeds and weights differ, as in two runs of one program.
_PROGRAM = """
import collections, json, sys
import jax

folder, vocabulary, seed, texts, labels = sys.argv[1:]
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **kwargs: events.update([name]))

import keras
from keras_albert import (
    AlbertBackbone, AlbertClassifier, AlbertClassifierPreprocessor, AlbertTokenizer,
)

keras.utils.set_random_seed(int(seed))
tokenizer = AlbertTokenizer(vocabulary)
backbone = AlbertBackbone(
    vocabulary_size=tokenizer.vocabulary_size(), num_layers=3, num_heads=2,
    embedding_dim=8, hidden_dim=16, intermediate_dim=32, max_sequence_length=32)
classifier = AlbertClassifier(
    backbone, num_classes=2,
    preprocessor=AlbertClassifierPreprocessor(tokenizer, sequence_length=16))
texts, labels = json.loads(texts), json.loads(labels)
classifier.fit(texts, labels, batch_size=4, epochs=2, verbose=0)
classifier.evaluate(texts, labels, batch_size=4, verbose=0)
classifier.predict(texts, batch_size=4, verbose=0)
folder = "/jax/compilation_cache/"
print(json.dumps([events[folder + name] for name in ("cache_hits", "cache_misses")]))
"""


def test_programs_are_found_again(tmp_path, toy, toy_proto, run_fresh):
    (tmp_path / "spiece.model").write_bytes(toy_proto)
    texts, names = (values[:12] for values in toy)
    labels = [int(name == "good") for name in names]

    def run(seed):
        printed = run_fresh(
            *(_PROGRAM, tmp_path / "programs", tmp_path / "spiece.model", seed),
            *(json.dumps(texts), json.dumps(labels)),
        )
        return json.loads(printed.splitlines()[-1])

    _, compiled = run(1)
    assert compiled
    found, compiled = run(2)
    assert found
    assert not compiled
