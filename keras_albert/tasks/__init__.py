"""Models with a head: each takes raw strings."""

from keras_albert.tasks.classification.exit_benchmark import (
    describe_exits,
    measure_exits,
    plot_exits,
)
from keras_albert.tasks.classification.model import (
    AlbertClassifier,
    AlbertTextClassifier,
)
from keras_albert.tasks.masked_lm import AlbertMaskedLM, AlbertPretrainer
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.question_answering.squad_scores import squad_scores
from keras_albert.tasks.text_embedding import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier

__all__ = [
    "AlbertClassifier",
    "AlbertMaskedLM",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertQuestionAnswerer",
    "AlbertTextClassifier",
    "AlbertTextEmbedder",
    "AlbertTokenClassifier",
    "describe_exits",
    "measure_exits",
    "plot_exits",
    "squad_scores",
]
