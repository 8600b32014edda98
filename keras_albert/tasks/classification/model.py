"""Classification and regression of texts and pairs of texts."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone import AlbertBackbone
from keras_albert.data.batches import check_targets
from keras_albert.data.labels import (
    encode_class_weights,
    learn_labels,
    target_kind,
    unchanged_on_error,
)
from keras_albert.data.tables import Columns, RawData, are_ids, is_dataset, read_data
from keras_albert.devices.processes import exclusive
from keras_albert.layers.encoder import HeadPooling
from keras_albert.layers.heads import ExitHeads
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.preprocessor import AlbertClassifierPreprocessor
from keras_albert.tasks.classification import early_exit, linear
from keras_albert.tasks.classification.calibration import calibrate, label_sets
from keras_albert.tasks.classification.explain import Explanation, explain
from keras_albert.tasks.heads import (
    NamedClasses,
    count_classes,
    output_dense,
    output_dropout,
)
from keras_albert.tasks.predict import predict_windows, softmax
from keras_albert.types import Activation, FloatArray, Int64Array, Texts
from keras_albert.utils import arguments


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertClassifier(NamedClasses, keras_hub.models.TextClassifier):
    """Assign classes or a score to texts, or to pairs of texts.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), appendix A.4.

    Args:
        backbone: An `AlbertBackbone`.
        num_classes: int or `None`. Number of classes; `1` is a regression. Defaults
            to `None`, the number of `labels`.
        preprocessor: An `AlbertClassifierPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        labels: Sequence of string or `None`. The names of the classes, in the order
            of their numbers. Defaults to `None`: the sorted names of the first `fit`
            whose targets are names; "0", "1", ... until then.
        activation: string or callable. Applied to the outputs. With `"sigmoid"`, a text
            may have any number of the classes, and each class has a separate
            probability. Defaults to `None`, which returns logits.
        dropout: float. Rate before the last layer. Defaults to `0.1`.
        exits: bool or int. `True` trains a head after each layer, so that texts can
            exit early; see `predict`. The training loss is the mean of the heads'
            losses, weighted by their depth ([Zhou et al.,
            2020](https://arxiv.org/abs/2006.04152)); metrics and `evaluate` use the
            last head. An int is the number of heads, at least the number of layers.
            Defaults to `False`, one head.
        pooling_mode: string. What the head reads: `"pooler"`, the backbone's
            `pooled_output`, or `"normalized_mean"`, the mean of the tokens, of length
            1, which `fit(method="linear")` may choose. Defaults to `"pooler"`.
        set_threshold: float or `None`. The probability from which on `classify` adds a
            label to the set of possible ones; see `calibrate`. Defaults to `None`, no
            sets.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If labels and `num_classes` disagree, the preprocessor makes inputs
            that the backbone cannot read, or the backbone has several groups of layers
            or more layers than `exits`.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> texts, labels = ["a fine film", "a dull film"], ["good", "bad"]
        >>> history = classifier.fit(texts, labels, epochs=2, verbose=0)
        >>> classifier.classify("a fine film")["label"] in labels
        True
    """

    preprocessor_cls = AlbertClassifierPreprocessor

    def __init__(
        self,
        backbone: AlbertBackbone,
        num_classes: int | None = None,
        preprocessor: AlbertClassifierPreprocessor | None = None,
        labels: Sequence[str] | None = None,
        activation: Activation | None = None,
        dropout: float = 0.1,
        exits: bool | int = False,
        pooling_mode: Literal["pooler", "normalized_mean"] = "pooler",
        set_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        num_classes = count_classes(num_classes, labels)
        if num_classes == 1 and labels is not None:
            raise ValueError(
                "A classifier needs at least two classes. Received: "
                f"labels={list(labels)}. For a regression, pass `num_classes=1` and no "
                "labels."
            )
        num_exits = early_exit.count_exits(exits, backbone)
        self.pooling = HeadPooling(
            pooling_mode, dtype=backbone.dtype_policy, name="pooling"
        )
        if num_exits and pooling_mode != "pooler":
            raise ValueError(
                "Heads after each layer read the pooler. Leave out `pooling_mode`."
            )
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = output_dropout(backbone, dropout)
        # In float32, for precision.
        self.output_dense = (
            ExitHeads(num_exits, num_classes, activation, dtype="float32", name="exits")
            if num_exits
            else output_dense(num_classes, "logits", activation)
        )

        inputs = backbone.input
        # Read by `compile`, which the constructor calls.
        self.num_classes = num_classes
        self.exits = num_exits
        self.activation = keras.activations.get(activation)
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.labels = None if labels is None else tuple(labels)
        self.dropout = dropout
        self.set_threshold = set_threshold

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        outputs = fast_call(
            self.backbone, inputs, training=training, num_layers=num_layers
        )
        x = fast_call(
            *(self.pooling, outputs["sequence_output"]),
            *(outputs["pooled_output"], inputs["padding_mask"]),
        )
        x = fast_call(self.output_dropout, x, training=training)
        last = (num_layers or self.backbone.num_layers) - 1
        exits = {"exit": last} if self.exits else {}
        return fast_call(self.output_dense, x, **exits)

    @property
    def pooling_mode(self) -> str:
        """The input of the head; see the constructor."""
        return str(self.pooling.mode)

    @property
    def uses_pooler(self) -> bool:  # type: ignore[override]
        """Whether the head reads `pooled_output`."""
        return self.pooling_mode == "pooler"

    @property
    def is_regression(self) -> bool:
        """Whether the model returns scores instead of classes."""
        return bool(self.num_classes == 1)

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have several of the classes, or none."""
        return self.activation is keras.activations.sigmoid and not self.is_regression

    @property
    def outputs_are_logits(self) -> bool | None:  # type: ignore[override]
        """Whether outputs are logits or probabilities; `None` if neither is known."""
        activations = keras.activations
        if self.activation in (activations.softmax, activations.sigmoid):
            return False
        return True if self.activation is activations.linear else None

    def default_loss(self) -> keras.losses.Loss:
        """Return cross-entropy for classes, squared error for scores."""
        return target_kind(self).loss(self.outputs_are_logits is not False)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Return accuracy for classes, the root of the squared error for scores."""
        return [target_kind(self).metric()]

    @property
    def target_dtype(self) -> str:
        """The dtype of class numbers, or of a number for each class."""
        return "int32" if target_kind(self).is_class else "float32"

    def encode_targets(self, y: Any) -> npt.NDArray[Any]:
        """Return int32 class numbers, or float32 `(examples, num_classes)`."""
        kind = target_kind(self)
        labels = self.labels
        if labels is None:
            labels = learn_labels(kind.names(y), self.num_classes, None)
        targets: npt.NDArray[Any] = kind.encode(y, self.num_classes, labels)
        self.labels = labels
        return targets

    def encode_class_weight(self, class_weight: Any) -> dict[int, float]:
        """Return a weight for each class; see `encode_class_weights`."""
        if self.is_regression or self.is_multi_label:
            return super().encode_class_weight(class_weight)
        return encode_class_weights(class_weight, self.num_classes, self.labels)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        *,
        method: Literal["finetune", "linear", "contrastive"] = "finetune",
        C: float | None = None,  # noqa: N803  (scikit-learn's name)
        cache: str | os.PathLike[str] | None = None,
        text: Any = None,
        text_pair: Any = None,
        label: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train all weights, or solve the head alone, in seconds.

        With `method="linear"`, scikit-learn solves a logistic regression (for scores a
        ridge regression) on the normalized mean of the encoder's tokens, or on
        `pooled_output` if five folds show that it is clearly better; they also choose
        `C` and the temperature of the logits. The solution becomes the head, and the
        choice its `pooling_mode`. `method="contrastive"` first trains the encoder on
        pairs of the texts, as [SetFit](https://arxiv.org/abs/2209.11055) does: half a
        minute on a CPU, on JAX a minute. It is better for sentiment with few labels.

        Args:
            x: See `AlbertTask.fit`. For a linear head, texts or pairs in memory.
            y: See `AlbertTask.fit`.
            batch_size: int. Defaults to `None`, which means 32.
            epochs: int. Defaults to `None`, which means 1.
            method: string. `"finetune"`, `AlbertTask.fit`; `"linear"`; or
                `"contrastive"`, which first trains the encoder on pairs of single texts
                that have one class each, 40 batches of 16. Defaults to `"finetune"`;
                a line recommends a linear head where labels are few.
            C: float. The inverse strength of the regularization of a linear head, whose
                inputs are standardized. Defaults to `None`: 0.1 after contrastive
                training, else the best in five folds, with a temperature, which a
                given `C` does without.
            cache: string or path. A file of vectors, which a linear head on the same
                texts reads instead of running the encoder. Defaults to `None`.
            text: See `AlbertTask.fit`. Defaults to `None`.
            text_pair: See `AlbertTask.fit`. Defaults to `None`.
            label: See `AlbertTask.fit`. Defaults to `None`.
            class_weight: See `AlbertTask.fit`. Defaults to `None`.
            sample_weight: See `AlbertTask.fit`. Defaults to `None`.
            **kwargs: See `AlbertTask.fit`; for a linear head only `verbose`. With
                `verbose=0` no line is printed.

        Returns:
            The `keras.callbacks.History`. That of a linear head has one row: `loss` and
            `accuracy` (`rmse`) of the training data, `folds_accuracy` (`folds_rmse`) of
            the folds, unless the encoder was trained on them, and `C`.

        Raises:
            ImportError: If a linear head is asked for and scikit-learn is missing.
            TypeError: See `AlbertTask.fit`.
            ValueError: See `AlbertTask.fit`; or if `method` is unknown; or if a linear
                head is not possible: fewer than two texts of a class, `exits`, several
                devices, texts that are not in memory, or options of training.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> texts = ["a fine film", "good fun", "so boring", "a dull film"]
            >>> labels = ["good", "good", "bad", "bad"]
            >>> preset = "albert_small_en_uncased"
            >>> classifier = AlbertClassifier.from_preset(preset, num_classes=2)
            >>> history = classifier.fit(texts, labels, method="linear", verbose=0)
            >>> classifier.classify("a dull book")["label"]
            'bad'
        """
        arguments.check_choice(linear.METHODS, method=method)
        verbose = kwargs.get("verbose", "auto")
        if method == "finetune":
            arguments.check_unused("method='finetune'", C=C, cache=cache)
            if verbose != 0 and y is not None and linear.is_advised(self, x, len(y)):
                print(
                    f"With {len(y)} labels, `fit(..., method='linear')` is often "
                    "better, and takes seconds."
                )
            return super().fit(
                *(x, y, batch_size, 1 if epochs is None else epochs),
                text=text,
                text_pair=text_pair,
                label=label,
                class_weight=class_weight,
                sample_weight=sample_weight,
                **kwargs,
            )
        given = kwargs | {"epochs": epochs, "verbose": None}
        arguments.check_unused(f"{method=}", **given)
        if C is not None:
            arguments.check_finite_and_positive(C=C)
        columns = self.traits.columns.choose(text, text_pair, label)
        data = self._read_all(x, y, sample_weight, columns)
        with exclusive(self):
            if class_weight is not None:
                class_weight = self._read_class_weight(class_weight, data.sample_weight)
            results = linear.solve_head(
                *(self, data, class_weight, batch_size, C, cache),
                is_contrastive=method == "contrastive",
                verbose=verbose,
            )
        self._forget_sets()
        if verbose != 0:
            shown = ", ".join(f"{name}={x:.4g}" for name, x in results.items())
            print(f"{method=}: {shown}")
        self.history = keras.callbacks.History()
        self.history.epoch = [0]
        self.history.history = {name: [value] for name, value in results.items()}
        return self.history

    def _before_training(self) -> None:
        self._forget_sets()

    def _forget_sets(self) -> None:
        """Drop the threshold of `calibrate`, which was found for other weights."""
        if self.set_threshold is not None:
            self.set_threshold = None
            warnings.warn(
                "Training changes the probabilities, so `classify` no longer returns "
                "the sets of labels of `calibrate`. Call `calibrate` again afterwards.",
                stacklevel=3,
            )

    def _read_all(
        self, x: Any, y: Any, sample_weight: Any, columns: Columns
    ) -> RawData:
        """Read texts in memory, and encode their targets."""
        with unchanged_on_error(self):
            data = read_data(x, y, sample_weight, columns)
            if is_dataset(data.x) or are_ids(self.preprocessor, data.x):
                raise ValueError(
                    "A linear head needs all texts in memory. Received: "
                    f"x={type(data.x).__name__}. Pass lists, or `method='finetune'`."
                )
            check_targets(self, data.x, data.y, "training")
            self.set_class_names(data.columns.class_names)
            return data._replace(y=self.encode_targets(data.y), is_encoded=True)

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        num_layers: int | None = None,
    ) -> Any:
        """Run the model; in training with exits, return the outputs of all heads."""
        if not (self.exits and training):
            return super().call(inputs, training, mask, num_layers)
        pooled = self.backbone.pooled_by_layer(inputs, training=True)
        return self.output_dense(self.output_dropout(pooled, training=True))

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> keras.KerasTensor:
        """Return symbolic outputs; in training with exits, of all heads."""
        spec = super().compute_output_spec(inputs, training=training, mask=mask)
        if not (self.exits and training):
            return spec
        batch, units = spec.shape
        return keras.KerasTensor((batch, self.backbone.num_layers, units), spec.dtype)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss; with exits the mean of the heads', weighted by depth."""
        rows = y, y_pred, sample_weight
        if self.exits:
            rows = early_exit.join_exits(self.loss, *rows)
        return super().compute_loss(x, *rows, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics, by the last head."""
        y_pred = y_pred[:, -1] if len(y_pred.shape) == 3 else y_pred
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        patience: int | None = None,
        threshold: float | None = None,
        num_layers: int | None = None,
        return_depths: bool = False,
        truncate: bool = True,
        stride: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the model's outputs, in the order of the inputs.

        With `exits`, texts may exit early by one of `patience` and `threshold`: no
        further layers run for them.

        Args:
            x: See `fit`.
            batch_size: int. Defaults to `None`, which means 32.
            patience: int. A text exits after this many heads in a row that agree with
                the head before them. Defaults to `None`.
            threshold: float. A text exits after the first head where the probability
                of its answer (of its least certain label) is at least this. For a
                regression, which needs both: the difference up to which two scores
                agree. Defaults to `None`.
            num_layers: int. How many layers to run. Defaults to `None`, the model's.
            return_depths: bool. Whether to return also the number of layers that each
                text ran through. Defaults to `False`.
            truncate: bool. Whether to truncate a text that is longer than a row.
                `False` reads all of it in overlapping windows; the outputs are their
                means, in which each token counts once. Defaults to `True`.
            stride: int or `None`. The tokens between the starts of windows. Defaults
                to `None`, half a window.
            **kwargs: See `AlbertTask.predict`.

        Returns:
            float32 array `(examples, num_classes)`; with `return_depths` a tuple of it
            and an integer array `(examples,)`.

        Raises:
            TypeError: See `fit`.
            ValueError: See `AlbertTask.predict`; or if the model has no exits.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2, exits=True)
            >>> outputs, depths = classifier.predict(
            ...     ["a fine film"], patience=1, return_depths=True, verbose=0)
            >>> outputs.shape, depths.shape
            ((1, 2), (1,))
        """
        if patience is not None or threshold is not None:
            early_exit.check_rule(self, patience, threshold, num_layers)
        if not truncate:
            given = {"patience": patience, "threshold": threshold}
            arguments.check_unused("truncate=False", **given, num_layers=num_layers)
            return predict_windows(self, "predict", x, batch_size, stride, **kwargs)[0]
        if patience is None and threshold is None:
            outputs = super().predict(x, batch_size, num_layers=num_layers, **kwargs)
            depths = np.full(len(outputs), num_layers or self.backbone.num_layers)
        else:
            outputs, depths = early_exit.predict_with_exits(
                self, x, batch_size, patience, threshold, **kwargs
            )
        return (outputs, depths) if return_depths else outputs

    def classify(
        self,
        texts: Texts,
        top_k: int | None = None,
        batch_size: int | None = None,
        *,
        patience: int | None = None,
        threshold: float | None = None,
        num_layers: int | None = None,
        return_depths: bool = False,
        truncate: bool = True,
        stride: int | None = None,
    ) -> Any:
        """Classify texts and return labels and scores.

        Args:
            texts: A text or a pair, or many.
            top_k: int. The number of classes to return per text. Defaults to `None`:
                one, or all if a text may have several.
            batch_size: int. Defaults to `None`, which means 32.
            patience: int. See `predict`. Defaults to `None`.
            threshold: float. See `predict`. Defaults to `None`.
            num_layers: int. See `predict`. Defaults to `None`.
            return_depths: bool. Whether the dicts also contain `depth`, the number
                of layers that the text ran through. Defaults to `False`.
            truncate: bool. See `predict`. Defaults to `True`.
            stride: int or `None`. See `predict`. Defaults to `None`.

        Returns:
            For one text a dict of `label` and `score`, a probability (for a regression
            `score` alone); for many texts a list of dicts. With `top_k` above 1 there
            is a list of dicts per text, the most likely class first. After `calibrate`,
            the dict also contains `set`, the labels that are possible.

        Raises:
            ValueError: If the model has no preprocessor, or `top_k` is below 1; see
                `predict`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> sentiment.classify("Overpriced and far too loud.")
            {'label': 'negative', 'score': 0.99...}
            >>> sentiment.classify("a fine film", top_k=2)[1]["label"]
            'negative'
            >>> sentiment.classify("a great story. " * 500, truncate=False)["label"]
            'positive'
        """
        self.require_preprocessor("classify")
        top_k = count_answers(self, top_k)
        self.untrained_head_warning.warn(self, "classify")
        depth = {"patience": patience, "threshold": threshold, "num_layers": num_layers}
        depths = None
        if truncate:
            examples, batched = self.encode_texts("prediction", texts)
            given: Any = depth | {"return_depths": return_depths, "verbose": 0}
            outputs = self.predict(examples, batch_size, **given)
            if return_depths:
                outputs, depths = outputs
        else:
            arguments.check_unused("truncate=False", **depth)
            outputs, batched = predict_windows(
                self, "classify", texts, batch_size, stride
            )
        answers = describe_outputs(self, outputs, top_k, depths)
        return answers if batched else answers[0]

    def calibrate(
        self, x: Any, y: Any = None, error_rate: float | None = None
    ) -> dict[str, float]:
        """Calibrate the probabilities on texts that were not trained on.

        A temperature, by which logits are divided so that the cross-entropy is lowest,
        becomes part of the head, and so of presets and exports. It is 1 if all answers
        are right: nothing shows how certain the model may be. With `error_rate`,
        answers also have a set of labels that lacks the right one for at most this
        share of texts like these. A set of several labels is a reason to ask a person.

        Sources: [Guo et al., 2017](https://arxiv.org/abs/1706.04599), [Sadinle et al.,
        2019](https://arxiv.org/abs/1609.00451).

        Args:
            x: Texts or pairs; or a table with the columns `text` and `label`.
            y: Their classes. Defaults to `None`, the table's column.
            error_rate: float. How often the set may lack the right label. The
                temperature is then chosen on half of the texts. Defaults to `None`, no
                sets.

        Returns:
            A dict of `temperature`, and of the cross-entropy `loss_before` and `loss`;
            with sets also `threshold` and `mean_set_size`.

        Raises:
            ImportError: If scipy is not installed.
            ValueError: If the model does not return logits of classes, a target is
                invalid, or there are too few texts for the rate.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> texts = ["a fine film", "an awful film", "good fun", "so boring"] * 5
            >>> found = sentiment.calibrate(texts, ["positive", "negative"] * 10, 0.2)
            >>> sentiment.classify("an awful film")["set"]
            ['negative']
        """
        return calibrate(self, x, y, error_rate)

    def explain(
        self, text: Texts, label: str | None = None, steps: int = 64
    ) -> Explanation:
        """Explain an answer: what each word of a text adds to it.

        The parts are integrated gradients from a text of `[MASK]` tokens to this one,
        and add up to the difference of both logits.

        Source: [Sundararajan et al., 2017](https://arxiv.org/abs/1703.01365).

        Args:
            text: A text, or a pair of texts.
            label: string. The class to explain. Defaults to `None`, the most likely.
            steps: int. Where gradients are computed on the way; the parts add up better
                with more. Defaults to `64`.

        Returns:
            An `Explanation`: `words`, each with `text`, `start`, `end` in characters,
            and `part`.

        Raises:
            ValueError: If there are several texts, the model has no such class or no
                preprocessor, or `steps` is below 1.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> found = sentiment.explain("an awful film with a fine cast")
            >>> found.label, found.top(1)[0].text
            ('negative', 'awful')
        """
        return explain(self, text, label, steps)

    def probabilities(self, outputs: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """Return the probabilities of the classes.

        Args:
            outputs: float32 array `(examples, num_classes)`, the result of `predict`.

        Returns:
            An array of that shape; a row sums to 1 if a text has one class.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> outputs = sentiment.predict(["a fine film", "so boring"], verbose=0)
            >>> sentiment.probabilities(outputs).round().astype(int).tolist()
            [[0, 1], [1, 0]]
        """
        return outputs if self.outputs_are_logits is False else softmax(outputs)


AlbertTextClassifier = AlbertClassifier


def count_answers(classifier: "AlbertClassifier", top_k: int | None) -> int:
    """Check `top_k`, and return how many classes of each text to name."""
    if top_k is None:
        return int(classifier.num_classes) if classifier.is_multi_label else 1
    arguments.check_positive(top_k=top_k)
    return top_k


def describe_outputs(
    classifier: "AlbertClassifier",
    outputs: FloatArray,
    top_k: int,
    depths: Int64Array | None = None,
) -> list[Any]:
    """Return the answers of `AlbertClassifier.classify`, one for each text."""
    if classifier.is_regression:
        top_k = 1
        ranked = [[{"score": float(score)}] for score in outputs[:, 0]]
    else:
        scores = classifier.probabilities(outputs)
        names = classifier.class_names
        best = np.argsort(-scores, axis=-1, kind="stable")[:, :top_k]
        ranked = [
            [{"label": names[i], "score": float(row[i])} for i in order]
            for row, order in zip(scores, best, strict=True)
        ]
        if classifier.set_threshold is not None and top_k == 1:
            inside = label_sets(scores, classifier.set_threshold)
            for answers, flags in zip(ranked, inside, strict=True):
                answers[0]["set"] = np.array(names)[flags].tolist()
    if depths is not None:
        for answers, depth in zip(ranked, depths.tolist(), strict=True):
            for answer in answers:
                answer["depth"] = depth
    return ranked if top_k > 1 else [answers[0] for answers in ranked]
