"""Running a task with another number of layers than it was built with."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from keras_albert.utils.arguments import check_positive, warn_of_depth


class DepthLock:
    """A lock between runs of a model at its own depth and at another one.

    Runs at its own depth do not wait for each other. A run at another depth changes the
    model, so it waits for all others, and they wait for it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs = 0
        self._owner: int | None = None

    @contextmanager
    def own_depth(self) -> Iterator[None]:
        """Hold the lock for a run at the depth that the model has now."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None)
            self._runs += 1
        try:
            yield
        finally:
            with self._changed:
                self._runs -= 1
                self._changed.notify_all()

    @contextmanager
    def other_depth(self) -> Iterator[None]:
        """Hold the lock for a change of the model's depth."""
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None and not self._runs)
            self._owner = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                self._owner = None
                self._changed.notify_all()


@contextmanager
def at_depth(
    task: Any, num_layers: int | None, method: Literal["predict", "test", "train"]
) -> Iterator[None]:
    """Let the encoder of a task run another number of layers within the block.

    All layers share their weights, so any number is possible. Each has its compiled
    function, which is kept for the next call.

    Args:
        task: An `AlbertTask`.
        num_layers: int or `None`. The number of layers; `None` changes nothing.
        method: string. The function of Keras that runs in the block.

    Raises:
        ValueError: If the number is below 1, or below the number of groups.
    """
    if num_layers is None:
        yield
        return
    # Not the encoder's, which another thread may have changed.
    trained = task.backbone.num_layers
    check_depth(num_layers, trained, task.backbone.num_groups)
    if num_layers == trained:
        yield
        return
    with task.depth_lock.other_depth(), _changed_depth(task, num_layers, method):
        yield


@contextmanager
def _changed_depth(task: Any, num_layers: int, method: str) -> Iterator[None]:
    name, step_name = f"{method}_function", f"{method}_step"
    # Keras replaces it if the model changes.
    getattr(task, f"make_{name}")()
    default = getattr(task, name)
    made_with, function = task.functions_at_depth.get((name, num_layers), (None, None))
    # Of the class, or of a layout of several devices.
    own, step = vars(task).get(step_name), getattr(task, step_name)
    try:
        setattr(task, name, function if made_with is default else None)
        # A new function, as JAX would reuse what it has traced for the method.
        setattr(task, step_name, lambda *args: step(*args))  # noqa: PLW0108
        with run_at_depth(task, num_layers):
            yield
        task.functions_at_depth[name, num_layers] = default, getattr(task, name)
    finally:
        setattr(task, name, default)
        delattr(task, step_name)
        if own is not None:
            object.__setattr__(task, step_name, own)


@contextmanager
def run_at_depth(task: Any, num_layers: int) -> Iterator[None]:
    """Change the number of layers of a task's encoder within the block.

    What is compiled is not; see `at_depth`.
    """
    encoder = task.backbone.encoder
    trained = encoder.num_layers
    encoder.num_layers = num_layers
    try:
        yield
    finally:
        encoder.num_layers = trained


def check_depth(num_layers: Any, trained: int, num_groups: int = 1) -> None:
    """Check a number of layers to run, and warn if there are more than trained.

    Raises:
        ValueError: If it is no whole number, below 1, or below `num_groups`.
    """
    check_positive(num_layers=num_layers)
    if num_layers < num_groups:
        msg = (
            f"The layers of this model are in {num_groups} groups, of which some would "
            f"never run. Received: num_layers={num_layers}"
        )
        raise ValueError(msg)
    warn_of_depth(num_layers, trained)
