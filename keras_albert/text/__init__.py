"""Texts to ids: the vocabulary, its rules, and what packs ids into inputs."""

from keras_albert.text.albert_tokenizer import AlbertTokenizer
from keras_albert.text.classifier_preprocessor import (
    AlbertClassifierPreprocessor,
    AlbertTextClassifierPreprocessor,
)
from keras_albert.text.conll import read_conll
from keras_albert.text.masked_lm_preprocessor import AlbertMaskedLMPreprocessor
from keras_albert.text.multiple_choice_preprocessor import (
    AlbertMultipleChoicePreprocessor,
)
from keras_albert.text.pretrainer_preprocessor import AlbertPretrainerPreprocessor
from keras_albert.text.question_answerer_preprocessor import (
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.text.squad_file import SquadFile, read_squad
from keras_albert.text.tagging import tag_names
from keras_albert.text.text_embedder_preprocessor import AlbertTextEmbedderPreprocessor
from keras_albert.text.text_rules import TextRules, add_text_rules
from keras_albert.text.token_classifier_preprocessor import (
    AlbertTokenClassifierPreprocessor,
)
from keras_albert.text.token_rows import TokenRows
from keras_albert.text.train_vocabulary import train_vocabulary

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
    "SquadFile",
    "TextRules",
    "TokenRows",
    "add_text_rules",
    "read_conll",
    "read_squad",
    "tag_names",
    "train_vocabulary",
]
