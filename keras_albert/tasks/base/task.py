"""What all tasks share: raw strings in, batches by length, saving and export."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.base.auto_compile import AutomaticCompile
from keras_albert.tasks.base.export_formats import export_writer
from keras_albert.tasks.base.presets import TaskPresets
from keras_albert.tasks.base.restore_weights import kept_weights
from keras_albert.tasks.distribution.metric_state import build_metrics_before_xla
from keras_albert.tasks.inputs.dataset_sizes import run_on
from keras_albert.tasks.inputs.datasets import after
from keras_albert.tasks.inputs.even_rows import build_before, even_batch, real_rows
from keras_albert.tasks.inputs.model_input import (
    holds_ids,
    preprocess_batch,
    read_model_input,
    unpack_validation,
)
from keras_albert.tasks.inputs.predict_ragged import (
    blank_outputs,
    has_ragged_outputs,
    predict_ragged,
)
from keras_albert.tasks.inputs.preprocessed_inputs import read_ids
from keras_albert.tasks.inputs.validation_split import split_validation
from keras_albert.text.inputs.read_text_columns import text_columns
from keras_albert.text.packing.examples import Examples
from keras_albert.utils.arguments import refuse_unknown
from keras_albert.utils.keras_internals import is_evaluation_of_fit

if TYPE_CHECKING:
    from keras_hub.models import Task as _Task
else:
    # KerasHub's class joins in the subclass: Keras rewrites the bases of functional
    # models, and finds a cycle where one base is reached on two ways.
    _Task = object


# What a subclass hands on to Keras and KerasHub.
_MODEL_ARGUMENTS = {"inputs", "outputs", "name", "trainable", "compile"}


class AlbertTask(AutomaticCompile, TaskPresets, _Task):
    """The part of a task that does not depend on what it predicts.

    Stands before one of KerasHub's task classes in the list of bases. A subclass
    says how targets become arrays (`encode_targets`), and what its default loss and
    metrics are (`default_loss`, `default_metrics`).
    """

    # Whether targets come from the texts themselves, and whether those of ids do.
    is_self_supervised = False
    ids_have_targets = True

    # What `predict` fills up outputs with whose shape differs from batch to batch.
    output_padding: float = 0.0

    # The input that is 0 where outputs of unlike lengths have nothing to say, if any.
    output_places: str | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Keras ignores what it does not know.
        refuse_unknown(
            type(self),
            kwargs,
            inherited=_MODEL_ARGUMENTS,
            hint="Pass arguments of the backbone to `AlbertBackbone`, or to "
            "`from_preset` of the task.",
        )
        super().__init__(*args, **kwargs)

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Turn targets into an array, and check them."""
        raise NotImplementedError

    @property
    def target_dtype(self) -> str:
        """The dtype that `encode_targets` gives: "int32" or "float32"."""
        raise NotImplementedError

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one example's target, where a graph of `tf.data` makes it."""
        return (1,) if self.target_dtype == "float32" else ()

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read input that is preprocessed already, and check it."""
        return read_ids(self.backbone, inputs)

    def encode_id_targets(self, y: Any) -> Any:
        """Turn the targets of input that is preprocessed already into arrays."""
        return self.encode_targets(y)

    def encode_class_weight(self, class_weight: Any, y: Any) -> dict[int, float]:
        """Turn `class_weight` into a weight for each class number, and check it.

        Args:
            class_weight: What `fit` was given.
            y: The targets, or `None` where a data set has them.

        Returns:
            A dict of all class numbers.

        Raises:
            ValueError: If the task does not assign each example to one class.
        """
        msg = (
            "`class_weight` needs targets of one class for each example, and this "
            f"{type(self).__name__} learns others. Pass `sample_weight` instead."
        )
        raise ValueError(msg)

    def adapt_examples(self, examples: Examples) -> Examples:
        """Fit what the preprocessor made to this model's inputs and outputs."""
        return examples

    def check_id_targets(self, ids: dict[str, npt.NDArray[Any]], y: Any) -> None:
        """Find a target that does not fit its ids; `y` may be `None`."""

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        validation_split: float = 0.0,
        validation_data: Any = None,
        validation_batch_size: int | None = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        shuffle: bool = True,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train on raw texts, or on what the preprocessor made of them.

        Texts are tokenized at once; batches hold texts of like length and are padded
        no further than they need (`preprocessor.sequence_length` fixes one length
        instead). A `tf.data.Dataset`, a `keras.utils.PyDataset` or an iterator keeps
        its own batches. The first is not tuned while it runs, which epochs waited
        for, unless its `options().autotune` say so.

        Args:
            x: Texts or pairs (see `keras_albert.text.inputs.read_text_columns`); a
                dict of `token_ids`, `segment_ids` and `padding_mask`; or a data set of
                batches `(x, y)` or `(x, y, sample_weight)`.
            y: Targets, unless `x` is a data set.
            batch_size: int. Defaults to `None`, 32.
            epochs: int. Defaults to `1`.
            validation_split: float. Part of the data, from its end, that is held out.
                Defaults to `0.0`.
            validation_data: `(x, y)`, `(x, y, sample_weight)` or a data set.
            validation_batch_size: int. Defaults to `None`, `batch_size`.
            class_weight: A dict of class names or numbers and their weights; a class
                that it leaves out has the weight 1. Defaults to `None`.
            sample_weight: One weight for each example. Defaults to `None`.
            shuffle: bool. Whether each epoch has another order. Defaults to `True`.
            **kwargs: Whatever else `keras.Model.fit` takes: `verbose`, `callbacks`,
                `initial_epoch`, `steps_per_epoch`, ...

        Returns:
            Keras' history of losses and metrics.

        Raises:
            TypeError: If `x` is nothing that can be trained on.
            ValueError: If a text or a target is wrong, with its row; if there are
                none, or not as many of one as of the other; if a data set is empty,
                or infinite and `steps_per_epoch` is `None`; if a class weight is
                wrong; if the task is not compiled.
        """
        # Before any text is read.
        self.check_compiled("fit")
        if class_weight is not None:
            kwargs["class_weight"] = self._read_class_weight(
                class_weight, y, sample_weight
            )
        if validation_split and validation_data is None:
            # All of them at once: names are learned from all, and rows keep numbers.
            if y is not None and not holds_ids(self, x):
                y = self.encode_targets(y)
            columns_of = getattr(self.preprocessor, "columns", text_columns)
            train, validation_data = split_validation(
                x, y, sample_weight, validation_split, columns_of
            )
            x, y, sample_weight = train
        data = read_model_input(
            *(self, x, y, sample_weight, batch_size, shuffle, "training"),
            steps=kwargs.get("steps_per_epoch"),
        )
        datasets = {"x": data.given}
        if validation_data is not None:
            held_x, held_y, weight = unpack_validation(self, validation_data)
            held_out = read_model_input(
                *(self, held_x, held_y, weight, validation_batch_size or batch_size),
                argument="validation_data",
                steps=kwargs.get("validation_steps"),
            )
            datasets["validation_data"] = held_out.given
            kwargs["validation_data"] = held_out.validation_data()
            kwargs["validation_batch_size"] = held_out.batch_size
        if not kwargs.get("initial_epoch"):
            steps = kwargs.get("steps_per_epoch") or data.num_steps()
            self._complete_optimizer(steps and steps * epochs, kwargs.get("callbacks"))
        # Data sets are in their order already.
        kwargs["shuffle"] = shuffle and data.batch_size is not None
        arguments = data.arguments() | kwargs | {"epochs": epochs}
        with kept_weights(self):
            arguments["x"] = build_before(self, data.x)
            return run_on(lambda: keras.Model.fit(self, **arguments), datasets)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the loss and the metrics.

        Args:
            x: As in `fit`.
            y: As in `fit`.
            batch_size: int. Defaults to `None`, 32.
            sample_weight: One weight for each example. Defaults to `None`.
            **kwargs: Whatever else `keras.Model.evaluate` takes, for instance
                `return_dict=True`.

        Returns:
            The loss and the metrics, as Keras gives them.

        Raises:
            TypeError: As `fit`.
            ValueError: As `fit`, with `steps` for `steps_per_epoch`.
        """
        if is_evaluation_of_fit(kwargs):
            # Within `fit`, which has read the validation data already.
            return keras.Model.evaluate(
                self, x, y, batch_size, sample_weight=sample_weight, **kwargs
            )
        # Keras' own does not ask on PyTorch.
        self.check_compiled("evaluate")
        data = read_model_input(
            self, x, y, sample_weight, batch_size, steps=kwargs.get("steps")
        )
        arguments = data.arguments() | kwargs
        with kept_weights(self):
            arguments["x"] = build_before(self, data.x)
            return run_on(
                lambda: keras.Model.evaluate(self, **arguments), {"x": data.given}
            )

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Compute the model's outputs, in the order of the inputs.

        Args:
            x: As in `fit`.
            batch_size: int. Defaults to `None`, 32.
            **kwargs: Whatever else `keras.Model.predict` takes.

        Returns:
            An array `(examples, ...)`, or a dict of such. Where outputs are as long as
            the longest row, shorter ones are filled up with `output_padding`. For an
            empty list the shape is `(0, ...)`.

        Raises:
            TypeError: As `fit`.
            ValueError: As `fit`, with `steps` for `steps_per_epoch`.
        """
        data = read_model_input(
            *(self, x),
            batch_size=batch_size,
            purpose="prediction",
            steps=kwargs.get("steps"),
        )
        if data.is_empty():
            return keras.tree.map_structure(
                lambda output: np.zeros((0, *(n or 0 for n in output.shape[1:])), "f"),
                self.output,
            )

        def compute() -> Any:
            if data.batch_size is None and has_ragged_outputs(self):
                batches, steps = data.batches or data.x, data.num_steps()
                return predict_ragged(self, batches, steps, **kwargs)
            arguments = {"x": data.x, "batch_size": data.batch_size}
            outputs = keras.Model.predict(self, **arguments, **kwargs)
            return blank_outputs(self, data.x, outputs)

        with kept_weights(self):
            outputs = run_on(compute, {"x": data.given})
        return outputs if data.batches is None else data.batches.restore_order(outputs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Train on one batch, as `keras.Model.train_on_batch` does.

        Args:
            x: As in `fit`, one batch.
            y: As in `fit`.
            sample_weight: As in `fit`.
            class_weight: As in `fit`.
            **kwargs: `return_dict`.

        Returns:
            The loss and the metrics.
        """
        if class_weight is not None:
            class_weight = self._read_class_weight(class_weight, y, sample_weight)
        batch = preprocess_batch(self, "training", x, y, sample_weight)
        batch = even_batch(self, batch)
        return keras.Model.train_on_batch(
            self, *batch, class_weight=class_weight, **kwargs
        )

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Evaluate on one batch of raw texts, or of ids; see `keras.Model`."""
        batch = preprocess_batch(self, "evaluation", x, y, sample_weight)
        batch = even_batch(self, batch)
        return keras.Model.test_on_batch(self, *batch, **kwargs)

    def predict_on_batch(self, x: Any, **kwargs: Any) -> Any:
        """Predict for one batch of raw texts, or of ids; see `keras.Model`."""
        (x,) = preprocess_batch(self, "prediction", x)
        outputs = keras.Model.predict_on_batch(self, x, **kwargs)
        return blank_outputs(self, x, outputs)

    def _read_class_weight(
        self, class_weight: Any, y: Any, sample_weight: Any
    ) -> dict[int, float]:
        if sample_weight is not None:
            msg = (
                "Pass `class_weight` or `sample_weight`, not both: multiply the "
                "weight of each example with that of its class."
            )
            raise ValueError(msg)
        return self.encode_class_weight(class_weight, y)

    def train_step(self, *state_and_data: Any) -> Any:
        """Train on a batch of a data set; Keras calls this."""
        *state, data = state_and_data
        build_metrics_before_xla(self, data)
        with after(data):
            return super().train_step(*state, real_rows(data))

    def test_step(self, *state_and_data: Any) -> Any:
        """Evaluate on a batch of a data set; Keras calls this."""
        *state, data = state_and_data
        build_metrics_before_xla(self, data)
        with after(data):
            return super().test_step(*state, real_rows(data))

    def predict_step(self, *state_and_data: Any) -> Any:
        """Predict for a batch of a data set; Keras calls this."""
        *state, data = state_and_data
        return super().predict_step(*state, real_rows(data))

    def preprocess_samples(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> Any:
        """Preprocess a batch to train on, as KerasHub calls this."""
        if y is None and not self.is_self_supervised:
            return preprocess_batch(self, "prediction", x)[0]
        return keras.utils.pack_x_y_sample_weight(
            *preprocess_batch(self, "training", x, y, sample_weight)
        )

    def quantize(self, mode: Any = None, **kwargs: Any) -> None:
        """Quantize the backbone; the head, few of the weights, stays float.

        Args:
            mode: string. `"int8"`, or another mode that Keras knows.
            **kwargs: Whatever else `keras.Model.quantize` takes.
        """
        self.backbone.quantize(mode, **kwargs)
        # What was compiled would run the old weights.
        self.train_function = self.test_function = self.predict_function = None

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",  # noqa: A002  (Keras' own name)
        **kwargs: Any,
    ) -> Path:
        """Write the model for a server: strings in, answers out.

        Args:
            filepath: string or path. What to write.
            format: string. `"tf_saved_model"`, `"onnx"` or `"litert"`. Defaults to
                `"tf_saved_model"`.
            **kwargs: Options of the format.

        Returns:
            The path.

        Raises:
            ValueError: If there is no such format, or the task has no preprocessor.
        """
        path: Path = export_writer(format)(self, Path(filepath), **kwargs)
        return path
