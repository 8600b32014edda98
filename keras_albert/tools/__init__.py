"""Tools around models: readers of files, checks of labels, and evaluation."""

from keras_albert.tools.datasets import Dataset
from keras_albert.tools.evaluation import EvaluationReport, evaluate
from keras_albert.tools.mistakes import Finding, check
from keras_albert.tools.tasks import read_examples

__all__ = [
    "Dataset",
    "EvaluationReport",
    "Finding",
    "check",
    "evaluate",
    "read_examples",
]
