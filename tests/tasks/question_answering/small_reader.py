"""A toy of reading: questions that a small model learns to answer in seconds."""

from keras_albert import (
    AlbertQuestionAnswerer,
    AlbertQuestionAnswererPreprocessor,
    AlbertTokenizer,
)
from tests.tasks.small_models import LENGTHS, small_backbone

CONTEXT = "the lamps were on the hill and the bread was by the river"
_ANSWERS = {"the lamps": "the hill", "the bread": "the river", "the storm": None}


def toy_reading(count, answerable=False):
    """Questions, contexts and answers, every third without one."""
    asked = [k for k, v in _ANSWERS.items() if v or not answerable]
    asked = [asked[row % len(asked)] for row in range(count)]
    contexts = [("in town " * (row % 3) + CONTEXT) for row in range(count)]
    answers = [
        _ANSWERS[what] and (context.index(_ANSWERS[what]), _ANSWERS[what])
        for what, context in zip(asked, contexts, strict=True)
    ]
    return (asked, contexts), answers


def small_reader(proto, preprocessor=True, dropout=0.0, dtype=None, **kwargs):
    if preprocessor is True:
        preprocessor = AlbertQuestionAnswererPreprocessor(
            AlbertTokenizer(proto), doc_stride=8, **LENGTHS
        )
    return AlbertQuestionAnswerer(
        small_backbone(dtype=dtype), preprocessor, dropout=dropout, **kwargs
    )
