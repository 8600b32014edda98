"""Text as ids: reading, vocabularies, windows, masks and tags, without Keras."""

from keras_albert.text.dataset_files import SquadFile, read_conll, read_squad
from keras_albert.text.packing import TokenRows
from keras_albert.text.tags import tag_names
from keras_albert.text.tokenizer.text_rules import TextRules, add_text_rules
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
from keras_albert.text.tokenizer.word_piece import WordPieceRules

__all__ = [
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
