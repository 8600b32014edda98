"""Small masked language models, as several files of tests make them."""

from keras_albert import (
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertPretrainer,
    AlbertPretrainerPreprocessor,
    AlbertTokenizer,
)
from tests.tasks.small_models import LENGTHS, small_backbone


def make_masked_lm(proto, **kwargs):
    return _make(AlbertMaskedLM, AlbertMaskedLMPreprocessor, proto, **kwargs)


def make_pretrainer(proto, **kwargs):
    return _make(AlbertPretrainer, AlbertPretrainerPreprocessor, proto, **kwargs)


def _make(task_cls, preprocessor_cls, proto, dtype=None, **kwargs):
    preprocessor = preprocessor_cls(AlbertTokenizer(proto), **(LENGTHS | kwargs))
    return task_cls(small_backbone(dtype=dtype), preprocessor)
