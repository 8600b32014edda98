"""The tasks of `finetune`, by name."""

from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.commands.finetune.tasks.classification import (
    CLASSIFICATION,
    REGRESSION,
)
from keras_albert.commands.finetune.tasks.masked_lm import MASKED_LM
from keras_albert.commands.finetune.tasks.multiple_choice import MULTIPLE_CHOICE
from keras_albert.commands.finetune.tasks.question_answering import QUESTION_ANSWERING
from keras_albert.commands.finetune.tasks.text_embedding import SIMILARITY
from keras_albert.commands.finetune.tasks.token_classification import (
    TOKEN_CLASSIFICATION,
)

__all__ = ["KINDS", "Data", "Kind"]

KINDS = {
    "classification": CLASSIFICATION,
    "masked-lm": MASKED_LM,
    "multiple-choice": MULTIPLE_CHOICE,
    "question-answering": QUESTION_ANSWERING,
    "regression": REGRESSION,
    "similarity": SIMILARITY,
    "token-classification": TOKEN_CLASSIFICATION,
}
