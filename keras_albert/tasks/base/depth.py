"""A task with another number of layers, which share their weights with it."""

import threading
from typing import Any

from keras_albert.tasks.base.batch_outputs import BatchOutputs
from keras_albert.utils.arguments import warn_of_depth
from keras_albert.utils.keras_internals import BACKBONE, share_attributes

# What Keras calls, and what a step of one instance would run at its own depth.
_STEPS = ("call", "train_step", "test_step", "predict_step")


class DepthViews:
    """The views of a task; see `AlbertTask.with_num_layers`.

    A view has the attributes of the task at the time of each call of `find`, except for
    the depth of its backbone and what is compiled. It is kept until the task's
    `predict_function` is replaced, see `BatchOutputs`. The task refers to views only
    from here, which Keras neither tracks nor saves.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._made_with: Any = None
        self._views: dict[int, Any] = {}

    def find(self, num_layers: int) -> Any:
        """Return the task with a number of layers, which has been checked."""
        task = self._task
        if num_layers == task.backbone.num_layers:
            return task
        function = task.predict_function or task.batch_outputs.current_function()
        with self._lock:
            if self._made_with is not function:
                self._made_with, self._views = function, {}
            view = self._views.get(num_layers)
            self._views[num_layers] = _share(task, num_layers, view)
            return self._views[num_layers]

    def check(self, num_layers: Any) -> None:
        """Check a number of layers, and warn if there are more than trained."""
        backbone = self._task.backbone
        backbone.encoder.check_depth(num_layers)
        warn_of_depth(num_layers, backbone.num_layers)


def _share(task: Any, num_layers: int, view: Any) -> Any:
    for name in _STEPS:
        step = vars(task).get(name)
        if step is not None and getattr(step, "__self__", None) is not task:
            msg = (
                f"`{name}` of this {type(task).__name__} was replaced by a function "
                "that runs all layers. Override it in a subclass, or set it to a "
                "`types.MethodType`, to run another number of layers."
            )
            raise ValueError(msg)
    is_new = view is None
    inner = None if is_new else view.backbone
    backbone = share_attributes(task.backbone, {"num_layers": num_layers}, inner)
    own = {BACKBONE: backbone, "batch_outputs": None}
    view = share_attributes(task, own, view)
    if is_new:
        vars(view)["batch_outputs"] = BatchOutputs(view)
    return view
