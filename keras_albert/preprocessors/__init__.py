"""The tokenizer, and a preprocessor for each task, as layers of Keras."""

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.masked_lm import (
    AlbertMaskedLMPreprocessor,
    AlbertPretrainerPreprocessor,
)
from keras_albert.preprocessors.multiple_choice import AlbertMultipleChoicePreprocessor
from keras_albert.preprocessors.preprocessor import (
    AlbertClassifierPreprocessor,
    AlbertTextClassifierPreprocessor,
    AlbertTextEmbedderPreprocessor,
)
from keras_albert.preprocessors.question_answering import (
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.preprocessors.token_classification import (
    AlbertTokenClassifierPreprocessor,
)

__all__ = [
    "AlbertClassifierPreprocessor",
    "AlbertMaskedLMPreprocessor",
    "AlbertMultipleChoicePreprocessor",
    "AlbertPretrainerPreprocessor",
    "AlbertQuestionAnswererPreprocessor",
    "AlbertTextClassifierPreprocessor",
    "AlbertTextEmbedderPreprocessor",
    "AlbertTokenClassifierPreprocessor",
    "AlbertTokenizer",
]
