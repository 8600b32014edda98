"""Models with a head: each takes raw strings."""

from keras_albert.tasks.classification.model import (
    AlbertClassifier,
    AlbertTextClassifier,
)
from keras_albert.tasks.masked_lm import AlbertMaskedLM, AlbertPretrainer
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.question_answering.answers import squad_scores
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedding.model import AlbertTextEmbedder
from keras_albert.tasks.text_embedding.search import (
    build_index,
    clustering_scores,
    mine_hard_negatives,
    retrieval_scores,
    search,
    similarity_scores,
)
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
    "build_index",
    "clustering_scores",
    "mine_hard_negatives",
    "retrieval_scores",
    "search",
    "similarity_scores",
    "squad_scores",
]
