"""Reading and writing checkpoints of other libraries."""

from keras_albert.checkpoints.convert import (
    Conversion,
    convert_checkpoint,
    export_checkpoint,
)
from keras_albert.checkpoints.google import FIRST_ALBERT_ZH, GOOGLE, GOOGLE_BERT
from keras_albert.checkpoints.keras_hub import KERAS_HUB, KERAS_HUB_BERT
from keras_albert.checkpoints.sentence_transformers import SENTENCE_TRANSFORMERS
from keras_albert.checkpoints.transformers import BERT_FAMILY, TRANSFORMERS

# In the order in which a directory is compared with them.
FORMATS = (
    SENTENCE_TRANSFORMERS,
    TRANSFORMERS,
    *BERT_FAMILY,
    KERAS_HUB,
    KERAS_HUB_BERT,
    GOOGLE,
    GOOGLE_BERT,
    FIRST_ALBERT_ZH,
)

__all__ = [
    "GOOGLE",
    "KERAS_HUB",
    "TRANSFORMERS",
    "Conversion",
    "convert_checkpoint",
    "export_checkpoint",
]
