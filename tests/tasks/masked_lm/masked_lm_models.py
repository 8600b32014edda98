"""Small masked language models, as several files of tests make them."""

import keras

from keras_albert import (
    AlbertBackbone,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertPretrainer,
    AlbertPretrainerPreprocessor,
    AlbertTokenizer,
)


def make_masked_lm(proto, **kwargs):
    return _make(AlbertMaskedLM, AlbertMaskedLMPreprocessor, proto, **kwargs)


def make_pretrainer(proto, **kwargs):
    return _make(AlbertPretrainer, AlbertPretrainerPreprocessor, proto, **kwargs)


def _make(task_cls, preprocessor_cls, proto, dtype=None, max_length=32, **kwargs):
    keras.utils.set_random_seed(7)
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=max_length,
        unroll=True,
        seed=3,
        dtype=dtype,
    )
    preprocessor = preprocessor_cls(
        tokenizer,
        max_sequence_length=max_length,
        length_buckets=[16],  # JAX compiles for each
        **kwargs,
    )
    return task_cls(backbone, preprocessor=preprocessor)
