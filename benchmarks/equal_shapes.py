"""Compare training steps and predictions of the bare models: equal shapes, no padding.

    KERAS_BACKEND=torch python benchmarks/equal_shapes.py --size base

8 rows of 128 and 4 of 512 ids, for the classifier and for the masked language model,
which scores only the 15% of positions that are masked (transformers always scores all).
By default keras_albert's layers run in a loop on TensorFlow and JAX; unrolled layers
(`unroll`), and XLA and `torch.compile`, which are not the default everywhere, are
listed separately.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from peer_models import TOLERANCES
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

SHAPES = ((8, 128), (4, 512))
VOCABULARY_SIZE = 30000
POLICIES = tuple(TOLERANCES)
KINDS = ("prediction", "training step")


def variants(
    backend: str, torch_compile: bool = False
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return keras_albert's variants: arguments of the backbone and of `compile`."""
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {"keras_albert": ({}, {})}
    if backend != "torch":
        ways["keras_albert, unrolled"] = {"unroll": True}, {}
    elif torch_compile:
        ways["keras_albert, compiled"] = {}, {"jit_compile": True}
    if backend == "tensorflow":
        ways["keras_albert, XLA"] = {}, {"jit_compile": True}
        ways["keras_albert, unrolled, XLA"] = {"unroll": True}, {"jit_compile": True}
    return ways


def build_task(task: str, size: str, vocabulary_size: int, **changes: Any) -> Any:
    from peer_models import build_backbone

    import keras_albert

    backbone = build_backbone(size, vocabulary_size, **changes)
    arguments = {"num_classes": 2} if task == "AlbertClassifier" else {}
    model = getattr(keras_albert, task)(backbone, **arguments)
    if task == "AlbertMaskedLM":
        # KerasHub's head uses another LayerNorm epsilon, which matters only if its
        # inputs are small, as with new weights.
        kernel = model.masked_lm_head.transform.kernel
        kernel.assign(kernel * 100)
    return model


def mask_slots(length: int) -> int:
    """Return the number of masked positions in a row."""
    return max(1, round(0.15 * length))


def inputs_of(task: str, vocabulary_size: int, rows: int, length: int) -> Any:
    """Return ids and targets."""
    from peer_models import random_ids

    ids = random_ids(vocabulary_size, rows, length)
    generator = np.random.default_rng(1)
    if task == "AlbertClassifier":
        return ids, generator.integers(0, 2, rows)
    slots = mask_slots(length)
    # Position 0 is an unused slot.
    places = [1 + generator.permutation(length - 1)[:slots] for _ in range(rows)]
    ids["mask_positions"] = np.sort(places).astype("int32")
    return ids, generator.integers(5, vocabulary_size, (rows, slots))


def transformers_step(peer: Any, task: str, ids: Any, y: Any) -> Callable[[], float]:
    inputs, labels = peer.tensors(ids), y
    if task == "AlbertMaskedLM":
        labels = np.full(ids["token_ids"].shape, -100)
        np.put_along_axis(labels, ids["mask_positions"], y, axis=1)
    return lambda: peer.train_step(inputs, labels)


def transformers_outputs(peer: Any, task: str, ids: Any) -> Any:
    logits = peer.logits(ids)
    if task == "AlbertMaskedLM":
        places = ids["mask_positions"][:, :, None]
        logits = np.take_along_axis(logits, places, axis=1)
    return logits


def compare(
    task: str,
    shapes: tuple[tuple[int, int], ...],
    arguments: Any,
    vocabulary_size: int = VOCABULARY_SIZE,
    kinds: tuple[str, ...] = KINDS,
    **sizes: Any,
) -> Iterator[Comparison]:
    """Yield comparisons of a prediction and of a training step for each shape.

    Args:
        task: string. `"AlbertClassifier"` or `"AlbertMaskedLM"`.
        shapes: Rows and lengths.
        arguments: The settings.
        vocabulary_size: int.
        kinds: What to measure. Defaults to both.
        **sizes: Backbone sizes that differ from `arguments.size`.
    """
    import keras
    from peer_models import (
        TransformersModel,
        check_agreement,
        compile_alike,
        load_keras_hub,
        write_peers,
    )

    models, policy = {}, arguments.policy
    ways = variants(keras.config.backend(), arguments.torch_compile)
    for name, (changes, compiling) in ways.items():
        models[name] = build_task(
            task, arguments.size, vocabulary_size, dtype=policy, **sizes, **changes
        )
        compile_alike(models[name], **compiling)
    theirs, auto = {
        "AlbertClassifier": ("TextClassifier", "AutoModelForSequenceClassification"),
        "AlbertMaskedLM": ("MaskedLM", "AutoModelForMaskedLM"),
    }[task]
    ours = models["keras_albert"]
    with tempfile.TemporaryDirectory() as folder:
        write_peers(ours, Path(folder))
        models["KerasHub"] = load_keras_hub(Path(folder), theirs, policy)
        peer = TransformersModel(Path(folder), auto, policy)
    models["KerasHub"].preprocessor = None
    if task == "AlbertMaskedLM":
        # KerasHub's class has no argument for it, and its 1e-5 is not small compared
        # with the variance of a random head.
        head = models["KerasHub"].masked_lm_head
        epsilon = ours.masked_lm_head.layer_norm_epsilon
        head._intermediate_layer_norm.epsilon = epsilon
    compile_alike(models["KerasHub"])
    peers = {"transformers": peer}
    if arguments.torch_compile:
        peers["transformers, compiled"] = peer.compiled()
    for name in ways:
        # Seeds make them equal, except for the head.
        models[name].set_weights(ours.get_weights())
    starts = {name: model.get_weights() for name, model in models.items()}
    for rows, length in shapes:
        ids, y = inputs_of(task, vocabulary_size, rows, length)
        outputs = {n: np.asarray(m.predict_on_batch(ids)) for n, m in models.items()}
        outputs["transformers"] = transformers_outputs(peer, task, ids)
        note = check_agreement(outputs, policy)
        predicting, training = [], []
        for name, model in models.items():
            predict = functools.partial(model.predict_on_batch, ids)
            train = functools.partial(model.train_on_batch, ids, y)
            # What is not the default may fail.
            optional = name.endswith(("XLA", "compiled"))
            predicting.append(Side(name, predict, rows, optional))
            training.append(Side(name, train, rows, optional))
        for name, each in peers.items():
            optional = name != "transformers"
            predict = functools.partial(each.logits, ids)
            train = transformers_step(each, task, ids, y)
            predicting.append(Side(name, predict, rows, optional))
            training.append(Side(name, train, rows, optional))
        for what, sides in zip(KINDS, (predicting, training), strict=True):
            if what not in kinds:
                continue
            yield measure(
                f"{task[6:]}: {what} of {rows} x {length}",
                sides,
                arguments.repeats,
                clock=CLOCKS[arguments.clock],
                work="rows",
                notes=[note],
            )
        # Training changed the weights, by one step per round.
        peer.restart()
        for name, model in models.items():
            model.set_weights(starts[name])


def shapes_parser(description: str) -> Any:
    made = timing_parser(description)
    made.add_argument("--no-torch-compile", dest="torch_compile", action="store_false")
    made.add_argument("--policy", default="float32", choices=POLICIES)
    return made


def main() -> None:
    arguments = shapes_parser(__doc__).parse_args()
    prepare(arguments)
    import keras
    from reports import report

    comparisons = (
        comparison
        for task in ("AlbertClassifier", "AlbertMaskedLM")
        for comparison in compare(task, SHAPES, arguments)
    )
    report("equal_shapes", comparisons, arguments, keras.config.backend())


if __name__ == "__main__":
    main()
