"""Models with a head: each takes raw strings."""

from keras_albert.tasks.classifier import AlbertClassifier, AlbertTextClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.pretrainer import AlbertPretrainer
from keras_albert.tasks.question_answerer import AlbertQuestionAnswerer
from keras_albert.tasks.squad_scores import squad_scores
from keras_albert.tasks.text_embedder import AlbertTextEmbedder
from keras_albert.tasks.token_classifier import AlbertTokenClassifier

__all__ = [
    "AlbertClassifier",
    "AlbertMaskedLM",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertQuestionAnswerer",
    "AlbertTextClassifier",
    "AlbertTextEmbedder",
    "AlbertTokenClassifier",
    "squad_scores",
]
