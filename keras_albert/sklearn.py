"""A classifier of texts as an estimator of scikit-learn."""

import os
from typing import Any, Literal, Self

import keras
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from keras_albert.tasks import AlbertClassifier
from keras_albert.tasks.classification.linear import SOLVED
from keras_albert.types import Texts

__all__ = ["AlbertClassifierEstimator"]

# How labels of no value are written.
_MISSING = ("None", "nan", "NaT", "<NA>")


class AlbertClassifierEstimator(ClassifierMixin, BaseEstimator):
    """An `AlbertClassifier` for `cross_val_score`, `GridSearchCV` and pipelines.

    `X` are texts, or pairs of texts as a list of tuples; `y` are names or numbers of
    classes, one for each text. The fitted model is `model_`, an `AlbertClassifier`
    with all its methods. A fitted estimator can be pickled; it contains all weights.
    With a linear head, folds and settings share the vectors on disk.

    Source: [scikit-learn's conventions](
    https://scikit-learn.org/stable/developers/develop.html).

    Args:
        preset: string or path. See `AlbertClassifier.from_preset`. Defaults to
            `"albert_small_en_uncased"`.
        method: string. `"finetune"`, `"linear"` or `"contrastive"`; see
            `AlbertClassifier.fit`. Defaults to `"finetune"`.
        C: float. The inverse strength of the regularization of a linear head. Defaults
            to `None`, chosen by folds. Not read for `"finetune"`.
        learning_rate: float. The highest rate of fine-tuning. Defaults to `None`,
            automatic. Read for `"finetune"` alone, as is `epochs`.
        epochs: int. Defaults to `None`, which means 1.
        batch_size: int. Defaults to `None`, which means 32.
        random_state: int. The seed of all random numbers, which is set for the whole
            program. Defaults to `None`, none is set.
        verbose: int. See `keras.Model.fit`. Defaults to `0`.

    Example:
        >>> from sklearn.model_selection import cross_val_score
        >>> from keras_albert.sklearn import AlbertClassifierEstimator
        >>> texts = ["a fine film", "good fun", "so boring", "a dull film"] * 2
        >>> labels = ["good", "good", "bad", "bad"] * 2
        >>> estimator = AlbertClassifierEstimator(method="linear")
        >>> cross_val_score(estimator, texts, labels, cv=2).mean()
        np.float64(1.0)
        >>> estimator.fit(texts, labels).predict(["how dull"])
        array(['bad'], dtype='<U4')
    """

    def __init__(
        self,
        preset: str | os.PathLike[str] = "albert_small_en_uncased",
        *,
        method: Literal["finetune", "linear", "contrastive"] = "finetune",
        C: float | None = None,  # noqa: N803  (scikit-learn's name)
        learning_rate: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.method = method
        self.C = C
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Texts,  # noqa: N803  (scikit-learn's name)
        y: Any,
        sample_weight: Any = None,
    ) -> Self:
        """Train a new model.

        Args:
            X: Texts or pairs.
            y: One class for each.
            sample_weight: One weight for each. Defaults to `None`.

        Returns:
            The estimator.

        Raises:
            ValueError: If there are fewer than two classes, or several for a text or
                none; see `AlbertClassifier.fit`.

        Example:
            >>> from keras_albert.sklearn import AlbertClassifierEstimator
            >>> texts = ["a fine film", "good fun", "so boring", "a dull film"]
            >>> estimator = AlbertClassifierEstimator(method="linear")
            >>> estimator.fit(texts, [1, 1, 0, 0]).classes_
            array([0, 1])
        """
        for row, each in enumerate(y):
            if not isinstance(each, str) and str(each) in _MISSING:
                msg = f"Row {row}: the label is {each}. Drop the row or label it."
                raise ValueError(msg)
        if (kind := type_of_target(y)) not in ("binary", "multiclass"):
            raise ValueError(
                f"`y` must be one class for each text, not {kind} targets. For scores, "
                "or several labels of a text, use `AlbertClassifier`."
            )
        classes, numbers = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"`y` has only 1 class, {classes.tolist()}.")
        if self.random_state is not None:
            keras.utils.set_random_seed(self.random_state)
        names = [str(each) for each in classes]
        model = AlbertClassifier.from_preset(self.preset, labels=names)
        is_solved = self.method in SOLVED
        if self.learning_rate is not None and not is_solved:
            model.compile(learning_rate=self.learning_rate)
        model.fit(
            *(_as_rows(X), [names[number] for number in numbers]),
            batch_size=self.batch_size,
            epochs=None if is_solved else self.epochs,
            method=self.method,
            C=None if self.method == "finetune" else self.C,
            sample_weight=sample_weight,
            verbose=self.verbose,
        )
        self.classes_, self.model_ = classes, model
        return self

    def predict_proba(
        self,
        X: Texts,  # noqa: N803  (scikit-learn's name)
    ) -> npt.NDArray[Any]:
        """Return the probability of each class.

        Args:
            X: Texts or pairs.

        Returns:
            An array `(texts, classes)`, in the order of `classes_`.

        Example:
            >>> from keras_albert.sklearn import AlbertClassifierEstimator
            >>> texts = ["a fine film", "good fun", "so boring", "a dull film"]
            >>> estimator = AlbertClassifierEstimator(method="linear")
            >>> estimator = estimator.fit(texts, [1, 1, 0, 0])
            >>> estimator.predict_proba(["how dull", "what fun"]).shape
            (2, 2)
        """
        check_is_fitted(self)
        outputs = self.model_.predict(_as_rows(X), self.batch_size, verbose=0)
        return self.model_.probabilities(outputs)

    def predict(
        self,
        X: Texts,  # noqa: N803  (scikit-learn's name)
    ) -> npt.NDArray[Any]:
        """Return the most likely class of each text.

        Args:
            X: Texts or pairs.

        Returns:
            An array `(texts,)` of elements of `classes_`.

        Example:
            >>> from keras_albert.sklearn import AlbertClassifierEstimator
            >>> texts = ["a fine film", "good fun", "so boring", "a dull film"]
            >>> estimator = AlbertClassifierEstimator(method="linear")
            >>> estimator = estimator.fit(texts, [1, 1, 0, 0])
            >>> estimator.predict(["how dull", "what fun"]).tolist()
            [0, 1]
        """
        best = self.predict_proba(X).argmax(axis=-1)
        return self.classes_[best]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _as_rows(texts: Any) -> Any:
    """Return the rows of a pipeline, of which those with one column are texts."""
    shape: Any = getattr(texts, "shape", ())
    return np.asarray(texts)[:, 0] if len(shape) == 2 and shape[1] == 1 else texts
