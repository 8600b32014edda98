"""The models that `predict` can run, one module per kind."""

from keras_albert.commands.predictors.open_predictor import open_predictor
from keras_albert.commands.predictors.predictor import Predictor

__all__ = ["Predictor", "open_predictor"]
