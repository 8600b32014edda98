"""Text preprocessing: the tokenizer, and a preprocessor for each task."""

from keras_albert.text.classification.preprocessor import (
    AlbertClassifierPreprocessor,
    AlbertTextClassifierPreprocessor,
)
from keras_albert.text.masked_lm.preprocessor import AlbertMaskedLMPreprocessor
from keras_albert.text.masked_lm.pretrainer_preprocessor import (
    AlbertPretrainerPreprocessor,
)
from keras_albert.text.multiple_choice.preprocessor import (
    AlbertMultipleChoicePreprocessor,
)
from keras_albert.text.question_answering.preprocessor import (
    AlbertQuestionAnswererPreprocessor,
)
from keras_albert.text.question_answering.squad_file import SquadFile, read_squad
from keras_albert.text.text_embedding.preprocessor import AlbertTextEmbedderPreprocessor
from keras_albert.text.token_classification.conll_file import read_conll
from keras_albert.text.token_classification.preprocessor import (
    AlbertTokenClassifierPreprocessor,
)
from keras_albert.text.token_classification.tag_schemes import tag_names
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
