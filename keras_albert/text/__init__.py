"""Text preprocessing: the tokenizer, and a preprocessor for each task."""

from keras_albert.text.dataset_files import SquadFile, read_conll, read_squad
from keras_albert.text.tag_schemes import tag_names
from keras_albert.text.tasks.classification import (
    AlbertClassifierPreprocessor,
    AlbertTextClassifierPreprocessor,
)
from keras_albert.text.tasks.masked_lm import (
    AlbertMaskedLMPreprocessor,
    AlbertPretrainerPreprocessor,
)
from keras_albert.text.tasks.multiple_choice import AlbertMultipleChoicePreprocessor
from keras_albert.text.tasks.question_answering import (
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.text.tasks.text_embedding import AlbertTextEmbedderPreprocessor
from keras_albert.text.tasks.token_classification import (
    AlbertTokenClassifierPreprocessor,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.text_rules import TextRules, add_text_rules
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
from keras_albert.text.tokenizer.word_piece import WordPieceRules

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
    "WordPieceRules",
    "add_text_rules",
    "read_conll",
    "read_squad",
    "tag_names",
    "train_vocabulary",
]
