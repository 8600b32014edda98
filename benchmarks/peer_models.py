"""Models with the same weights in keras_albert, KerasHub and transformers.

transformers runs on PyTorch, whatever the backend of the other two. With the backend
"torch" it is the relevant peer; with TensorFlow and JAX it shows the speed of PyTorch
on the same machine. On a GPU start JAX with XLA_PYTHON_CLIENT_PREALLOCATE=false, so
that memory is left for PyTorch.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Of logits, relative to the largest; bfloat16 has 8 bits of precision in all layers.
TOLERANCES = {"float32": 2e-5, "mixed_bfloat16": 0.1}
RATE = 1e-5
BATCH_SIZE = 32


def build_backbone(size: str, vocabulary_size: int, **changes: Any) -> Any:
    """Build keras_albert's backbone with random weights and changed arguments."""
    from keras_albert import AlbertBackbone
    from keras_albert.backbone import MODEL_SIZES

    arguments = {"seed": 0} | MODEL_SIZES[size] | changes
    return AlbertBackbone(vocabulary_size=vocabulary_size, **arguments)


def build_classifier(
    size: str, vocabulary: bytes, num_classes: int = 2, **changes: Any
) -> Any:
    """Build keras_albert's classifier of texts with random weights."""
    from keras_albert import (
        AlbertClassifier,
        AlbertClassifierPreprocessor,
        AlbertTokenizer,
    )

    tokenizer = AlbertTokenizer(vocabulary)
    backbone = build_backbone(size, tokenizer.vocabulary_size(), **changes)
    preprocessor = AlbertClassifierPreprocessor(
        tokenizer, max_sequence_length=backbone.max_sequence_length
    )
    return AlbertClassifier(
        backbone, num_classes=num_classes, preprocessor=preprocessor
    )


def write_peers(ours: Any, folder: Path) -> None:
    """Write keras_albert's weights in the formats of the other libraries."""
    from keras_albert.checkpoints import export_checkpoint

    export_checkpoint(ours, folder / "keras_hub", "keras-hub")
    ours.export_to_transformers(folder / "transformers")


@contextlib.contextmanager
def peers_of(ours: Any) -> Iterator[tuple[Any, "TransformersModel"]]:
    """Yield KerasHub's and transformers' models with the weights of `ours`."""
    with tempfile.TemporaryDirectory() as name:
        write_peers(ours, Path(name))
        yield load_keras_hub(Path(name)), TransformersModel(Path(name))


def load_keras_hub(
    folder: Path, task: str = "TextClassifier", policy: str = "float32"
) -> Any:
    """Load KerasHub's model."""
    import keras_hub

    task_class = getattr(keras_hub.models, task)
    return task_class.from_preset(str(folder / "keras_hub"), dtype=policy)


def keras_hub_backbone(ours: Any, policy: str = "float32") -> Any:
    """Build KerasHub's backbone of the same sizes, with random weights."""
    import keras_hub

    config = ours.get_config()
    names = (
        *("vocabulary_size", "num_layers", "num_heads", "embedding_dim"),
        *("hidden_dim", "intermediate_dim", "num_groups", "max_sequence_length"),
    )
    return keras_hub.models.AlbertBackbone(
        **{name: config[name] for name in names}, dtype=policy
    )


def compile_alike(model: Any, steps: int | None = None, **kwargs: Any) -> None:
    """Compile a Keras model with the AdamW settings of all sides.

    Args:
        model: keras_albert's model; or KerasHub's, which gets Keras' AdamW and, except
            for regressions, keeps its loss.
        steps: int. Training steps, a tenth of which are warm-up; or `None`, for a small
            constant rate.
        **kwargs: Arguments of `compile`.
    """
    import keras

    from keras_albert.tasks.optimizers import (
        NOT_DECAYED,
        default_learning_rate,
        default_optimizer,
    )
    from keras_albert.tasks.task import AlbertTask

    rate = RATE if steps is None else default_learning_rate(_width(model), False)
    if getattr(model, "num_classes", None) == 1:
        kwargs.setdefault("loss", "mean_squared_error")
        kwargs.setdefault("metrics", [])
    optimizer = default_optimizer(rate, steps)
    if not isinstance(model, AlbertTask):
        optimizer = keras.optimizers.AdamW.from_config(optimizer.get_config())
        optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    model.compile(optimizer=optimizer, **kwargs)


def _width(model: Any) -> int:
    return int(model.backbone.hidden_dim)


def random_ids(
    vocabulary_size: int, rows: int, length: int, lengths: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return random ids without padding, or in rows of the given lengths."""
    generator = np.random.default_rng(0)
    ids = generator.integers(5, vocabulary_size, (rows, length)).astype("int32")
    longest = np.full(rows, length) if lengths is None else np.asarray(lengths)
    mask = (np.arange(length) < longest[:, None]).astype("int32")
    segments = np.zeros((rows, length), "int32")
    return {"token_ids": ids * mask, "segment_ids": segments, "padding_mask": mask}


def keras_logits(model: Any, ids: dict[str, Any]) -> Any:
    """Return a Keras model's outputs for ids, bypassing its preprocessor."""
    preprocessor, model.preprocessor = model.preprocessor, None
    try:
        return np.asarray(model.predict_on_batch(ids))
    finally:
        model.preprocessor = preprocessor


def check_agreement(outputs: dict[str, Any], policy: str = "float32") -> str:
    """Compare all outputs with the first ones.

    Args:
        outputs: dict of a side's name to its array.
        policy: string. The precision of the computation. Defaults to `"float32"`.

    Returns:
        A note for the report.

    Raises:
        ValueError: If they differ.
    """
    floats = {name: np.asarray(found, "float32") for name, found in outputs.items()}
    (_, expected), *others = floats.items()
    largest = float(np.abs(expected).max())
    allowed = TOLERANCES[policy] * max(1.0, largest)
    worst = 0.0
    for name, found in others:
        difference = float(np.abs(found - expected).max())
        # In this form the check fails for NaN, too.
        if not difference <= allowed:
            msg = (
                f"{name} computes something else: outputs differ by {difference:.1e}, "
                f"and {allowed:.1e} is allowed."
            )
            raise ValueError(msg)
        worst = max(worst, difference)
    return (
        f"same weights, outputs within {worst:.1e} (allowed {allowed:.1e}; the "
        f"largest is {largest:.2g})"
    )


def check_classifiers(ours: Any, keras_hub: Any, theirs: "TransformersModel") -> str:
    """Check that all three classifiers return the same logits, also with padding."""
    length = min(24, ours.backbone.max_sequence_length)
    ids = random_ids(ours.backbone.vocabulary_size, 3, length, (length, length // 2, 3))
    return check_agreement(
        {
            "keras_albert": keras_logits(ours, ids),
            "KerasHub": keras_logits(keras_hub, ids),
            "transformers": theirs.logits(ids),
        }
    )


class TransformersModel:
    """A transformers model, with the code of a typical optimized training loop.

    Args:
        folder: Path. The directory of `write_peers`.
        task: string. The auto class. Defaults to sequence classification.
        policy: string. Keras' name for the precision. Defaults to `"float32"`.
    """

    def __init__(
        self,
        folder: Path,
        task: str = "AutoModelForSequenceClassification",
        policy: str = "float32",
    ) -> None:
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.policy = policy
        path = folder / "transformers"
        model_class = getattr(transformers, task)
        model = model_class.from_pretrained(path, attn_implementation="sdpa")
        self.model = self.plain = model.to(self.device)
        self.first_weights = {k: v.clone() for k, v in model.state_dict().items()}
        self.tokenizer = None
        if (path / "tokenizer.json").exists():
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.restart()

    def compiled(self) -> "TransformersModel":
        """Return a copy with the same weights that uses `torch.compile`."""
        other = object.__new__(TransformersModel)
        other.__dict__.update(self.__dict__)
        other.model = self.torch.compile(self.plain, dynamic=True)
        return other

    def restart(self, steps: int | None = None) -> None:
        """Restore the initial weights and a new optimizer; see `compile_alike`."""
        from keras_albert.tasks.optimizers import default_learning_rate

        torch = self.torch
        self.plain.load_state_dict(self.first_weights)
        named = list(self.plain.named_parameters())
        free = [p for n, p in named if n.endswith("bias") or "LayerNorm" in n]
        others = [
            p for n, p in named if not n.endswith("bias") and "LayerNorm" not in n
        ]
        rate = RATE
        if steps is not None:
            rate = default_learning_rate(self.plain.config.hidden_size, False)
        self.optimizer = torch.optim.AdamW(
            [{"params": others}, {"params": free, "weight_decay": 0.0}],
            lr=rate,
            eps=1e-6,
            fused=True,
        )
        warm_up = max(1, (steps or 0) // 10)

        def scale(step: int) -> float:
            if steps is None:
                return 1.0
            if step < warm_up:
                return step / warm_up
            done = (step - warm_up) / max(1, steps - warm_up)
            return 0.5 * (1 + float(np.cos(np.pi * min(1.0, done))))

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, scale)

    def tensors(self, ids: dict[str, Any]) -> dict[str, Any]:
        """Return ids under transformers' names, on the device."""
        names = {
            "input_ids": "token_ids",
            "token_type_ids": "segment_ids",
            "attention_mask": "padding_mask",
        }
        return {
            theirs: self.torch.as_tensor(np.asarray(ids[name])).long().to(self.device)
            for theirs, name in names.items()
        }

    def precision(self) -> Any:
        """Return the autocast context in which the model runs."""
        is_mixed = self.policy != "float32"
        return self.torch.autocast(self.device, self.torch.bfloat16, enabled=is_mixed)

    def logits(self, ids: dict[str, Any]) -> Any:
        """Return the model's logits for ids."""
        self.model.eval()
        with self.torch.inference_mode(), self.precision():
            return self.model(**self.tensors(ids)).logits.float().cpu().numpy()

    def train_step(self, inputs: dict[str, Any], labels: Any) -> float:
        """Train on one batch and return the loss."""
        self.model.train()
        labels = self.torch.as_tensor(np.asarray(labels)).to(self.device)
        with self.precision():
            loss = self.model(**inputs, labels=labels).loss
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.plain.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return float(loss.detach())
