"""The base of all tasks: raw strings in, batches by length, saving and export."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import keras
import numpy.typing as npt

from keras_albert.backbone import AlbertBackbone, select_inputs
from keras_albert.data.batches import LengthBatches, make_batches, preprocess_batch
from keras_albert.data.datasets import Steps, call_and_reject_empty, num_steps
from keras_albert.data.labels import unchanged_on_error
from keras_albert.data.tables import (
    Columns,
    RawData,
    are_ids,
    is_dataset,
    read_data,
    read_ids,
    split_validation,
    unpack,
)
from keras_albert.devices import batch_sharding
from keras_albert.devices.batch_sharding import as_dataset
from keras_albert.devices.processes import (
    connect_processes,
    exclusive,
    refuse_sharded,
    restore_on_error,
    shard_spec,
    train_in_processes,
)
from keras_albert.layers.base_layer import ROW_TOKENS, config_from_attributes
from keras_albert.layers.torch_inference import use_torch_inference
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.tasks import presets
from keras_albert.tasks.compile import CompiledTask, check_epochs, steps_at_depth
from keras_albert.tasks.predict import (
    PredictFunction,
    UntrainedHeadWarning,
    outputs_of,
    predict_all,
)
from keras_albert.tasks.table import (
    WRITERS,
    check_export_options,
    export_writer,
    format_of_path,
)
from keras_albert.text.packing import read_weights
from keras_albert.text.reading import text_columns
from keras_albert.types import Mode
from keras_albert.utils import arguments, keras_internals
from keras_albert.utils.remote import output_path

if TYPE_CHECKING:
    from keras_hub.models import Task as _Task
else:
    # Subclasses add KerasHub's class: Keras rewrites the bases of functional models,
    # and a base that is reached in two ways would be a cycle.
    _Task = object

# Arguments of `fit` that every process must pass alike.
_STEPS = ("initial_epoch", "steps_per_epoch", "validation_steps", "validation_freq")

ExportFormat = Literal[
    "tf_saved_model", "onnx", "transformers_onnx", "web_page", "litert", "mediapipe"
]

# Arguments that a subclass passes on to Keras and KerasHub.
_MODEL_ARGUMENTS = {"inputs", "outputs", "name", "trainable", "compile"}


def _num_steps(batches: Any) -> int | None:
    is_list = isinstance(batches, LengthBatches)
    return len(batches) if is_list else num_steps(batches)


class TaskTraits(NamedTuple):
    """The differences between tasks, for code that reads their data and outputs."""

    # The columns of a table.
    columns: Columns = Columns()
    # Whether rows of ids come with targets, also where texts are their own targets.
    ids_have_targets: bool = True
    # Whether a `tf.data.Dataset` is read in its graph, where targets are one array.
    encodes_in_graph: bool = True
    # Attributes that the targets of `fit` may set.
    set_by_targets: tuple[str, ...] = ()
    # Without the weights of tokens, metrics would count padding.
    metrics_need_weights: bool = False
    # The padding of outputs whose shape differs between batches, and the input that is
    # 0 where they are padding, if any.
    output_padding: float = 0.0
    output_mask: str | None = None
    # Layers of the head that have the same meaning in other tasks.
    shared_head_layers: tuple[str, ...] = ()


class AlbertTask(CompiledTask, PresetMixin, _Task):
    """Base class of all tasks, before one of KerasHub's in the list of bases."""

    # A subclass has `encode_targets`, `default_loss`, `default_metrics`, `_run_layers`.

    # The differences between tasks, see `TaskTraits`.
    traits = TaskTraits()

    backbone_cls = AlbertBackbone

    # Whether it reads `pooled_output`; if so, a missing pooler is an error.
    uses_pooler = True

    # Whether targets are made from the texts.
    is_self_supervised = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check a subclass, which PyTorch's `fully_shard` makes as well."""
        super().__init_subclass__(**kwargs)
        refuse_sharded(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Keras ignores unknown arguments.
        arguments.check_kwargs(
            type(self),
            kwargs,
            inherited=_MODEL_ARGUMENTS,
            hint="Pass arguments of the backbone to `AlbertBackbone`, or to "
            "`from_preset` of the task.",
        )
        presets.check_preprocessor(self.backbone, self.preprocessor)
        with keras_internals.building_model():
            super().__init__(*args, **kwargs)
        keras_internals.register_parameters(self)
        keras_internals.train_in_one_process(self)
        self.untrained_head_warning = UntrainedHeadWarning(self)
        self.run_batch = PredictFunction(self)

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        num_layers: int | None = None,
    ) -> Any:
        """Run the model on its inputs, as in `AlbertBackbone.call`."""
        backbone = self.backbone
        num_layers = num_layers or self._depth or backbone.num_layers
        is_graph = num_layers == backbone.encoder.num_layers
        is_graph = is_graph and ROW_TOKENS not in inputs
        if is_graph and (training or not use_torch_inference(inputs)):
            inputs = select_inputs(self, inputs)
            return super().call(inputs, training=training, mask=mask)
        return self._run_layers(inputs, training, num_layers)

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        """Run the backbone and the head, for the functional model or instead of it."""
        raise NotImplementedError

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Any:
        """Return the symbolic outputs of the functional model."""
        return super().compute_output_spec(select_inputs(self, inputs))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        return config | config_from_attributes(self, AlbertTask)

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Encode and check targets; return an array."""
        raise NotImplementedError

    @property
    def target_dtype(self) -> str:
        """The dtype of encoded targets, "int32" or "float32"."""
        raise NotImplementedError

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of the target of one example in a graph of `tf.data`."""
        return (1,) if self.target_dtype == "float32" else ()

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check input that is preprocessed already."""
        return read_ids(self.backbone, inputs)

    def encode_id_targets(self, y: Any) -> Any:
        """Encode and check the targets of input that is preprocessed already."""
        return self.encode_targets(y)

    def set_class_names(self, names: tuple[str, ...]) -> None:
        """Take the names of a data set, if the task names its classes."""

    def learn_from_targets(self, y: Any) -> None:
        """Set what training determines by encoded targets, after all checks."""

    def encode_class_weight(self, class_weight: Any) -> dict[int, float]:
        """Return a weight for each class number, after a check; see `fit`."""
        raise ValueError(
            "`class_weight` needs one class for each example, but this "
            f"{type(self).__name__} has other targets. Pass `sample_weight` instead; a "
            "tagger's may have a weight for each word."
        )

    def encode_texts(
        self, mode: Mode, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[Any, bool]:
        """Read, check and tokenize raw input; return also if it was a batch."""
        return self.preprocessor.encode_for(mode, x, y, sample_weight)

    def require_preprocessor(self, method: str) -> Any:
        """Return the preprocessor, which `method` needs, or raise if there is none."""
        if self.preprocessor is None:
            raise ValueError(
                f"`{method}` reads texts, but this model has no preprocessor. Build it "
                "with one, or call `predict` on ids."
            )
        return self.preprocessor

    def read_weights(self, sample_weight: Any) -> Any:
        """Read and check the weights of raw input; see `read_weights`."""
        return read_weights(sample_weight)

    def check_id_targets(self, ids: dict[str, Any], y: Any, mode: Mode) -> None:
        """Check that targets, unless `None`, fit the ids."""

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        text: Any = None,
        text_pair: Any = None,
        label: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        validation_batch_size: int | None = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        shuffle: bool = True,
        auto_shard: bool = True,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train on raw texts, or on preprocessed input.

        All texts are tokenized first. A batch contains texts of similar length and is
        padded no further than necessary, unless `preprocessor.sequence_length` fixes
        the length, or `preprocessor.pack_sequences` lets texts share rows. Data sets
        and iterators keep their batches. Autotuning of a `tf.data.Dataset`, which
        delays the end of each epoch, is disabled unless `options().autotune` is set.

        Args:
            x: Texts, or pairs as a tuple of two columns; a dict of `token_ids`,
                `segment_ids` and `padding_mask`; a data set of batches `(x, y)` or
                `(x, y, sample_weight)`; or a table: a dict of columns, a list of dicts,
                a data frame, or a Hugging Face data set. Batches may be tables too.
            y: Targets, unless `x` has them. Defaults to `None`.
            batch_size: int. Defaults to `None`, which means 32.
            epochs: int. Defaults to `1`.
            text: string. The column of texts in a table. Defaults to `None`, "text";
                for a tagger "tokens", for a question answerer "question".
            text_pair: string, or several for an embedder with hard negatives. The
                column of second texts. Defaults to `None`, "text_pair" if there is one;
                for a question answerer "context".
            label: string. The column of targets; or a list of columns of zeros and
                ones, the labels of a text that may have several. Defaults to `None`,
                "label"; "ner_tags" or "answers" for a tagger or question answerer.
            validation_split: float. The share of the data, from its end, to validate
                on. Defaults to `0.0`.
            validation_data: `(x, y)`, `(x, y, sample_weight)`, a data set or a table;
                for a task without targets `x` or `(x,)`. Defaults to `None`.
            validation_batch_size: int. Defaults to `None`, `batch_size`.
            class_weight: A dict of class names or numbers and their weights; the weight
                of a missing class is 1. Defaults to `None`.
            sample_weight: One weight per example, or the name of a column. For words, a
                tagger also takes a list of one weight per word. Defaults to `None`.
            shuffle: bool. Whether to change the order in each epoch. Defaults to
                `True`.
            auto_shard: bool. With several processes, whether each is given all data,
                and takes its rows of each batch. Pass `False` if each is given a part
                of its own. Defaults to `True`.
            **kwargs: Other arguments of `keras.Model.fit`: `verbose`, `callbacks`,
                `initial_epoch`, `steps_per_epoch`, ...

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If `x` has an unknown type, or an argument an unknown name.
            ValueError: If a text, a target (with its row) or a class weight is invalid;
                if there are no examples, or not one target for each; if a
                data set is infinite, or an iterator for several epochs, without
                `steps_per_epoch`; if the task is not compiled; or if one of several
                processes has different data, settings or versions, or is not connected.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2)
            >>> history = classifier.fit(
            ...     ["where is my parcel", "the app crashes"],
            ...     ["delivery", "technical"], epochs=2, verbose=0)
            >>> sorted(history.history), classifier.labels
            (['accuracy', 'loss'], ('delivery', 'technical'))
        """
        # Before any text is read.
        arguments.check_options(type(self), "fit", kwargs)
        self._check_compiled("fit")
        first = check_epochs(epochs, **kwargs)
        options = [
            *(batch_size, epochs, text, text_pair, label, validation_split),
            *(validation_batch_size, class_weight, shuffle),
            *map(kwargs.get, _STEPS),
        ]
        given = (x, y, sample_weight, validation_data)
        with (
            exclusive(self),
            train_in_processes(self, auto_shard, given, options) as quiet,
        ):
            kwargs = quiet | kwargs
            with unchanged_on_error(self):
                names = text, text_pair, label
                data = self._read_given(x, y, sample_weight, names, batch_size)
                has_ids = are_ids(self.preprocessor, data.x)
                is_raw = not (is_dataset(data.x) or has_ids)
                if data.y is not None and is_raw:
                    # Before a split, so that names come from all of them, and errors
                    # name the row in `y`.
                    y = self.encode_targets(data.y)
                    data = data._replace(y=y, is_encoded=True)
                targets, datasets = data.y, {"x": data.x}
                held: RawData | None = None
                if class_weight is not None:
                    kwargs["class_weight"] = self._read_class_weight(
                        class_weight, data.sample_weight
                    )
                size = validation_batch_size
                size = batch_size if size is None else size
                if validation_data is not None:
                    held_out = unpack(validation_data, "`validation_data`")
                    # It may be no table.
                    columns = data.columns._replace(named=frozenset())
                    held = read_data(*held_out, columns, size)
                    datasets["validation_data"] = held_out[0]
                elif validation_split:
                    columns_of = getattr(self.preprocessor, "columns", text_columns)
                    data, held = split_validation(data, validation_split, columns_of)
                option = "steps_per_epoch"
                limit = Steps(kwargs.get(option), option, epochs=epochs - first)
                batches = make_batches(
                    self, data, batch_size, "training", shuffle, limit
                )
                if held is not None:
                    option, argument = "validation_steps", "validation_data"
                    limit = Steps(kwargs.get(option), option, argument, epochs - first)
                    kwargs[argument] = self._as_dataset(
                        make_batches(self, held, size, steps=limit)
                    )
            if data.is_encoded:
                self.learn_from_targets(targets)
            dataset = self._as_dataset(batches)
            steps = kwargs.get("steps_per_epoch") or _num_steps(batches)
            rest = steps and steps * (epochs - first), kwargs.get("callbacks")
            if not (first and self._continue_optimizer(*rest)):
                self._complete_optimizer(*rest)
            # Data sets are in their order already.
            kwargs |= {"epochs": epochs, "shuffle": False}
            with restore_on_error(self):
                return self._call_keras(keras.Model.fit, dataset, datasets, kwargs)

    def _as_dataset(self, batches: Any) -> Any:
        """Return batches as Keras takes them, of the rows of this process."""
        is_shared = keras.config.backend() == "tensorflow" or shard_spec(self)
        is_list = isinstance(batches, LengthBatches)
        return batches if is_list and not is_shared else as_dataset(self, batches)

    def _call_keras(
        self,
        method: Callable[..., Any],
        dataset: Any,
        given: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a method of Keras; `given` may have data sets without a batch."""
        packs = getattr(self.preprocessor, "pack_sequences", False)
        if packs or shard_spec(self):
            dataset = batch_sharding.build_before(self, dataset)
        if not any(map(is_dataset, given.values())):
            return method(self, x=dataset, **kwargs)
        return call_and_reject_empty(lambda: method(self, x=dataset, **kwargs), given)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        text: Any = None,
        text_pair: Any = None,
        label: Any = None,
        sample_weight: Any = None,
        num_layers: int | None = None,
        auto_shard: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Compute the loss and the metrics.

        Args:
            x: See `fit`.
            y: See `fit`.
            batch_size: int. Defaults to `None`, which means 32.
            text: See `fit`. Defaults to `None`.
            text_pair: See `fit`. Defaults to `None`.
            label: See `fit`. Defaults to `None`.
            sample_weight: See `fit`. Defaults to `None`.
            num_layers: int. See `predict`. Defaults to `None`.
            auto_shard: bool. See `fit`. Defaults to `True`.
            **kwargs: Other arguments of `keras.Model.evaluate`, such as
                `return_dict=True`.

        Returns:
            The loss and the metrics, as in Keras.

        Raises:
            TypeError: See `fit`.
            ValueError: See `predict`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> scores = sentiment.evaluate(
            ...     ["a fine film", "so boring"], ["positive", "negative"],
            ...     return_dict=True, verbose=0)
            >>> scores["accuracy"]
            1.0
        """
        if keras_internals.is_evaluation_of_fit(kwargs):
            return keras.Model.evaluate(
                self, x, y, batch_size, sample_weight=sample_weight, **kwargs
            )
        arguments.check_options(type(self), "evaluate", kwargs)
        # Keras does not check this on PyTorch.
        self._check_compiled("evaluate")
        self._check_depth(num_layers)
        options = [batch_size, text, text_pair, label, num_layers, kwargs.get("steps")]
        given = (x, y, sample_weight)
        with (
            exclusive(self),
            train_in_processes(self, auto_shard, given, options) as quiet,
        ):
            kwargs = quiet | kwargs
            with unchanged_on_error(self):
                names = text, text_pair, label
                data = self._read_given(x, y, sample_weight, names, batch_size)
                limit = Steps(kwargs.get("steps"))
                dataset = self._as_dataset(
                    make_batches(self, data, batch_size, steps=limit)
                )
            test_function, depth = self.test_function, num_layers
            if depth == self.backbone.num_layers:
                depth = None
            if depth is not None:
                self.test_function = None
            try:
                with restore_on_error(self), steps_at_depth(self, depth):
                    given_x = {"x": data.x}
                    return self._call_keras(
                        keras.Model.evaluate, dataset, given_x, kwargs
                    )
            finally:
                if depth is not None:
                    self.test_function = test_function

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        num_layers: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the model's outputs, in the order of the inputs.

        Args:
            x: See `fit`.
            batch_size: int. Defaults to `None`, which means 32.
            num_layers: int. How many layers to run. Defaults to `None`, the model's.
            **kwargs: Other arguments of `keras.Model.predict`.

        Returns:
            An array `(examples, ...)`, or a dict of arrays. Outputs that are as long as
            the longest row are padded. For an empty list the
            shape is `(0, ...)`.

        Raises:
            TypeError: See `fit`.
            ValueError: See `fit`, with `steps` for `steps_per_epoch`; or if
                `num_layers` is below 1.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> sentiment.predict(["a fine film", "so boring"], verbose=0).shape
            (2, 2)
        """
        self._check_depth(num_layers)
        return predict_all(self, x, batch_size, num_layers=num_layers, **kwargs)

    def _read_given(
        self,
        x: Any,
        y: Any,
        sample_weight: Any,
        names: tuple[Any, Any, Any],
        batch_size: int | None,
    ) -> RawData:
        """Read what `fit` or `evaluate` got, with the names of a table's columns."""
        columns = self.traits.columns.choose(*names, self.is_self_supervised)
        data = read_data(x, y, sample_weight, columns, batch_size)
        if data.columns.class_names:
            self.set_class_names(data.columns.class_names)
        return data

    def _check_depth(self, num_layers: int | None) -> None:
        """Check a number of layers, and warn if there are more than trained."""
        if num_layers is not None:
            self.backbone.encoder.check_depth(num_layers)
            arguments.warn_of_depth(num_layers, self.backbone.num_layers)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Train on one batch; see `keras.Model.train_on_batch`.

        Args:
            x: See `fit`, one batch.
            y: See `fit`.
            sample_weight: See `fit`.
            class_weight: See `fit`.
            **kwargs: `return_dict`.

        Returns:
            The loss and the metrics.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2)
            >>> texts, labels = ["a fine film", "so boring"], [1, 0]
            >>> logs = classifier.train_on_batch(texts, labels, return_dict=True)
            >>> sorted(logs)
            ['accuracy', 'loss']
        """
        data = x, y, sample_weight
        with exclusive(self), connect_processes(self):
            with unchanged_on_error(self):
                batch = preprocess_batch(self, "training", *data)
                if class_weight is not None:
                    class_weight = self._read_class_weight(class_weight, sample_weight)
            batch = batch_sharding.pad_for_devices(self, batch)
            return keras.Model.train_on_batch(
                self, *batch, class_weight=class_weight, **kwargs
            )

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Evaluate on one batch; arguments and result as in `train_on_batch`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> texts, labels = ["a fine film", "so boring"], ["positive", "negative"]
            >>> logs = sentiment.test_on_batch(texts, labels, return_dict=True)
            >>> float(logs["accuracy"])
            1.0
        """
        data = x, y, sample_weight
        with exclusive(self), connect_processes(self):
            with unchanged_on_error(self):
                batch = preprocess_batch(self, "evaluation", *data)
            batch = batch_sharding.pad_for_devices(self, batch)
            return keras.Model.test_on_batch(self, *batch, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """Predict for one batch `x` (see `fit`); the result is as in `predict`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> sentiment.predict_on_batch(["a fine film", "so boring"]).argmax(axis=-1)
            array([1, 0])
        """
        (x,) = preprocess_batch(self, "prediction", x)
        return outputs_of(self, x)

    def _read_class_weight(
        self, class_weight: Any, sample_weight: Any
    ) -> dict[int, float]:
        if sample_weight is not None:
            raise ValueError(
                "Pass `class_weight` or `sample_weight`, not both: multiply the weight "
                "of each example by its class weight."
            )
        return self.encode_class_weight(class_weight)

    def preprocess_samples(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> Any:
        """Preprocess a batch to train on, as KerasHub calls this."""
        if y is None and not self.is_self_supervised:
            return preprocess_batch(self, "prediction", x)[0]
        return keras.utils.pack_x_y_sample_weight(
            *preprocess_batch(self, "training", x, y, sample_weight)
        )

    def save_task_weights(self, filepath: str | os.PathLike[str]) -> None:
        """Save the weights of the head; see `keras_hub.models.Task`."""
        presets.save_head(self, filepath)

    def load_task_weights(self, filepath: str | os.PathLike[str]) -> None:
        """Load the weights of the head, after a check; see `keras_hub.models.Task`."""
        presets.load_head(self, filepath)

    @classmethod
    def _check_new_head(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if arguments of a new head are missing, before weights are read."""

    @classmethod
    def _from_checkpoint(
        cls, checkpoint: Any, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        return presets.load_task(cls, checkpoint, load_weights, **kwargs)

    def quantize(self, mode: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Quantize the backbone; the head, which has few weights, remains float.

        Args:
            mode: string. `"int8"`, or another mode of Keras.
            *args: See `AlbertBackbone.quantize`.
            **kwargs: See `AlbertBackbone.quantize`.

        Returns:
            As in Keras.

        Raises:
            ValueError: See `AlbertBackbone.quantize`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> report = sentiment.quantize("int8")
            >>> sentiment.classify("so boring")["label"]
            'negative'
        """
        result = self.backbone.quantize(mode, *args, **kwargs)
        # They have the old weights.
        self.train_function = self.test_function = self.predict_function = None
        keras_internals.register_parameters(self)
        return result

    def save(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Save as a `.keras` file; see `keras.Model.save`.

        Args:
            filepath: string or path. The file to write, `NAME.keras`.
            *args: See `keras.Model.save`.
            **kwargs: See `keras.Model.save`.

        Raises:
            ValueError: If the suffix is `.h5`, of Keras' old format, or `zipped=False`:
                neither contains the vocabulary.

        Example:
            >>> import keras
            >>> from keras_albert import AlbertMaskedLM
            >>> masked_lm = AlbertMaskedLM.from_preset("albert_tiny_en_uncased")
            >>> masked_lm.save("tiny.keras")
            >>> loaded = keras.models.load_model("tiny.keras")
            >>> loaded.fill_mask("a [MASK] film", top_k=1)
            [{'score': ...}]
        """
        name, zipped = str(filepath), kwargs.get("zipped")
        is_folder = name.startswith("hf://") if zipped is None else not zipped
        if is_folder or name.endswith((".h5", ".hdf5")):
            raise ValueError(
                f"{filepath} would lack the vocabulary, and could not be loaded. Pass "
                "NAME.keras, or call `save_to_preset`, or `save_weights`."
            )
        super().save(filepath, *args, **kwargs)

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: ExportFormat | None = None,  # noqa: A002  (Keras' own name)
        *,
        inputs: Literal["tokens", "text"] | None = None,
        pairs: bool = False,
        quantize: Literal["int8", "dynamic_int8", "fp16"] | None = None,
        sequence_length: int | None = None,
        max_length: int | None = None,
        top_k: int | None = None,
        version: int | None = None,
        javascript: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the model for a server or a device, which runs it without Keras.

        - `"tf_saved_model"`: a directory of versions for TensorFlow Serving; it takes
          strings.
        - `"onnx"`: a file for ONNX Runtime, OpenVINO and others; it takes ids, or
          strings.
        - `"transformers_onnx"`: a folder for transformers.js, Optimum and
          sentence-transformers.
        - `"web_page"`: a folder with a page that runs the model in a browser.
        - `"litert"`: a file for LiteRT (TensorFlow Lite); it takes ids.
        - `"mediapipe"`: a file for MediaPipe's text tasks; it takes strings.

        Args:
            filepath: string or path. The file or directory to write. It may be in a
                remote storage: `s3://bucket/name`.
            format: string. Defaults to `None`: the format of the suffix (`"onnx"` of
                `.onnx`, `"litert"` of `.tflite`), else `"tf_saved_model"`.
            inputs: string. `"onnx"`: `"tokens"`, int32 ids from the preprocessor, with
                numeric outputs; or `"text"`, strings, tokenized in the graph by
                onnxruntime-extensions. Defaults to `None`, ids.
            pairs: bool. `"onnx"`, of strings: whether the model also takes a second
                text, `text_pair`. Defaults to `False`.
            quantize: string. `"onnx"`: `"int8"`, which stores matrices in a quarter of
                the size, and multiplies in int8. `"litert"` and `"mediapipe"`:
                `"dynamic_int8"`, the same, or `"fp16"`, half the size. Defaults to
                `None`, float32.
            sequence_length: int. `"litert"` and `"mediapipe"`: the tokens of all rows,
                for devices that need fixed shapes. Defaults to `None`, any length.
            max_length: int. `"tf_saved_model"`: the maximum number of tokens in a row.
                Defaults to `None`, the preprocessor's.
            top_k: int. `"tf_saved_model"`: of a classifier, how many classes to return
                as `top_k_labels` and `top_k_scores`; of a masked language model, how
                many tokens for each mask. Defaults to `None`: no such outputs, and 5.
            version: int. `"tf_saved_model"`: the version to write, which must be new.
                Defaults to `None`, the next one.
            javascript: string or path. `"web_page"`: a directory whose `node_modules`
                contain onnxruntime-web and @huggingface/tokenizers. Defaults to `None`,
                the current one.
            overwrite: bool. `"onnx"`, `"litert"` and `"mediapipe"`: whether to replace
                an existing file. Defaults to `False`; directories are replaced.

        Returns:
            The path that was written; of a SavedModel the directory of the version.

        Raises:
            ImportError: If a package that the format needs is not installed.
            FileExistsError: If the file or the version exists.
            OSError: If the path cannot be written.
            ValueError: If an argument is invalid, the format does not have it or
                contradicts the suffix, or the task cannot be exported to it.
            RuntimeError: If the process that writes TensorFlow's formats failed.

        Example:
            ```python
            classifier.export("served/mine")  # a SavedModel, version 1
            classifier.export("mine.onnx", inputs="text")
            ```
        """
        path = output_path(filepath)
        name = format or format_of_path(path)
        arguments.check_choice(WRITERS, format=name)
        options = {
            "inputs": inputs,
            "pairs": pairs,
            "quantize": quantize,
            "sequence_length": sequence_length,
            "max_length": max_length,
            "top_k": top_k,
            "version": version,
            "javascript": javascript,
            "overwrite": overwrite,
        }
        # 0 is a version.
        given = {
            option: value
            for option, value in options.items()
            if value is not None and value is not False
        }
        check_export_options(name, path, given)
        return export_writer(name)(self, path, **given)
