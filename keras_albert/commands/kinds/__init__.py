"""The tasks of `finetune`, by name."""

from keras_albert.commands.kinds.classification import CLASSIFICATION, REGRESSION
from keras_albert.commands.kinds.kind import Data, Kind
from keras_albert.commands.kinds.masked_lm import MASKED_LM
from keras_albert.commands.kinds.multiple_choice import MULTIPLE_CHOICE
from keras_albert.commands.kinds.question_answering import QUESTION_ANSWERING
from keras_albert.commands.kinds.similarity import SIMILARITY
from keras_albert.commands.kinds.token_classification import TOKEN_CLASSIFICATION

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
