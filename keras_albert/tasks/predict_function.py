"""What a task computes with: for a batch of arrays, and with fewer layers."""

import contextlib
import math
import operator
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_albert.data.batch_sharding import num_parts
from keras_albert.devices.model_state import call_with_values
from keras_albert.tasks.predict import map_outputs, to_numpy
from keras_albert.text.packing import Examples
from keras_albert.utils.arguments import warn_of_depth
from keras_albert.utils.keras_internals import BACKBONE, share_attributes

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask

Run = Callable[[dict[str, Any]], Any]


class BatchOutputs:
    """A function from one batch of ids to the model's outputs, for several threads."""

    # What is compiled (on TensorFlow Keras' graph, on JAX a program for each shape) is
    # kept until the model has other variables or its `predict_function` is reset.

    def __init__(self, task: "AlbertTask") -> None:
        self._task = task
        self._lock = threading.Lock()
        self._compiled: _Compiled | None = None

    def __call__(self, inputs: dict[str, Any]) -> Any:
        """Compute the outputs, as arrays of NumPy."""
        specs = self._task.input
        inputs = {
            name: np.asarray(array, specs[name].dtype) if name in specs else array
            for name, array in inputs.items()
        }
        function, start = self.current_function(), time.perf_counter()
        outputs = map_outputs(to_numpy, function.run_batch(inputs))
        count, *_, length = inputs["token_ids"].shape
        if count == 1:
            function.programs.add_call(length, time.perf_counter() - start)
        return outputs

    def current_function(self) -> Any:
        """Return what is compiled, anew if the model has changed."""
        with self._lock:
            if self._compiled is None or not self._compiled.is_current(self._task):
                # TensorFlow's graph would use the old variables.
                self._task.predict_function = None
                self._task.make_predict_function()
                self._compiled = _Compiled(self._task)
            return self._compiled

    def padded_length(self, examples: Examples) -> Callable[[int], int]:
        """Return the function from the longest row of a batch to the batch's length."""
        preprocessor: Any = self._task.preprocessor
        if keras.config.backend() != "jax" or len(examples) != 1 or num_parts() > 1:
            return preprocessor.padded_length
        programs = self.current_function().programs
        return partial(programs.choose_length, self, examples, preprocessor)

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, which is kept until the model has changed."""
        compiled = self.current_function()
        if not hasattr(compiled, name):
            setattr(compiled, name, make())
        return getattr(compiled, name)


class _Compiled:
    """Programs of a task, and what they have read from it."""

    def __init__(self, task: "AlbertTask") -> None:
        self._function = task.predict_function
        self._variables = task.variables
        maker = _MAKERS[keras.config.backend()]
        self.run_batch: Run = maker(task, self._variables)
        self.programs = OneTextPrograms(task.warmup_lengths)

    def is_current(self, task: "AlbertTask") -> bool:
        """Return whether the task would compile the same again."""
        if self._function is not task.predict_function:
            return False
        if keras.config.backend() == "torch":
            # It compiles nothing, and reads the model each time.
            return True
        known, variables = self._variables, task.variables
        return len(known) == len(variables) and all(map(operator.is_, known, variables))


class OneTextPrograms:
    """The lengths for which JAX has compiled a program for one text."""

    # Compiling one takes as long as many calls, and slows others down. So texts run a
    # longer program until what they lose by it is as long.

    def __init__(self, warmup_lengths: tuple[int, ...]) -> None:
        self._first_lengths = warmup_lengths
        self._lengths: set[int] = set()
        # Seconds of the fastest call of a program, and lost by texts of a length.
        self._fastest: dict[int, float] = {}
        self._lost: defaultdict[int, float] = defaultdict(float)
        self._compiling = math.inf
        self._lock = threading.Lock()
        self._compiler: threading.Thread | None = None

    def choose_length(
        self, run: Run, examples: Examples, preprocessor: Any, longest: int
    ) -> int:
        """Return the length of the program to run for the only one of `examples`."""
        own, *first = (
            int(preprocessor.padded_length(min(length, preprocessor.max_length)))
            for length in (longest, *self._first_lengths)
        )
        most = max(first[0], 2 * own)
        with self._lock:
            longer = [length for length in self._lengths if own <= length <= most]
            if not longer:
                # The caller compiles it. As long as most texts, or the next one would
                # have to wait as well; the first call waits for a second program, too.
                chosen = max(own, first[0])
                if not self._lengths and chosen < first[-1]:
                    self._start_compiler(run, examples, first[-1])
                self._lengths.add(chosen)
                return chosen
            chosen = min(longer)
            seconds = self._fastest.get(chosen, math.inf)
            if own < chosen and seconds < math.inf:
                self._lost[own] += seconds * (1 - own / chosen)
            is_due = own < chosen and self._lost[own] >= self._compiling
            is_busy = self._compiler is not None and self._compiler.is_alive()
            if is_due and not is_busy:
                self._start_compiler(run, examples, own)
        return chosen

    def add_call(self, length: int, seconds: float) -> None:
        """Keep what a call took; the first of a length compiles."""
        with self._lock:
            is_first = not self._fastest
            if length not in self._fastest:
                self._compiling, seconds = seconds, math.inf
            self._fastest[length] = min(seconds, self._fastest.get(length, seconds))
        compiler = self._compiler
        if is_first and compiler and compiler is not threading.current_thread():
            # It would slow the next calls down.
            compiler.join()

    def _start_compiler(self, run: Run, examples: Examples, length: int) -> None:
        def compile_program() -> None:
            # `fit` may have taken the weights; a later text tries again.
            with contextlib.suppress(Exception):
                run(examples.pack(np.arange(1), length)[0])
                with self._lock:
                    self._lengths.add(length)

        # No daemon: a program that ends waits for it.
        self._compiler = threading.Thread(target=compile_program)
        self._compiler.start()


def _make_for_tensorflow(task: "AlbertTask", variables: list[Any]) -> Run:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    del variables
    predict = task.predict_function
    if not isinstance(predict, tf.types.experimental.PolymorphicFunction):
        return lambda inputs: predict([(inputs,)])
    programs: dict[Any, Any] = {}

    def run(inputs: dict[str, Any]) -> Any:
        tensors = map_outputs(tf.convert_to_tensor, inputs)
        # TensorFlow's own search for a program compares the shapes of all calls, and
        # takes as long as a layer; for a second shape it would trace again.
        key = tuple((name, x.dtype, x.shape.rank) for name, x in tensors.items())
        if key not in programs:
            specs = {
                name: tf.TensorSpec([None] * rank, dtype) for name, dtype, rank in key
            }
            programs[key] = predict.get_concrete_function([(specs,)])
        return programs[key]([(tensors,)])

    return run


def _make_for_jax(task: "AlbertTask", variables: list[Any]) -> Run:
    import jax  # noqa: PLC0415  (it is the backend)

    def compute(values: list[Any], inputs: dict[str, Any]) -> Any:
        given = {id(v): value for v, value in zip(variables, values, strict=True)}
        state = [
            [given[id(v)] for v in group]
            for group in (task.trainable_variables, task.non_trainable_variables)
        ]
        outputs, _ = task.predict_step(state, (inputs,))
        return outputs

    if task.jit_compile and not task.run_eagerly:
        compute = jax.jit(compute)
    return lambda inputs: call_with_values(compute, variables, inputs)


def _make_for_torch(task: "AlbertTask", variables: list[Any]) -> Run:
    import torch  # noqa: PLC0415  (it is the backend)

    predict = task.predict_function

    # Each operation costs less than with Keras' `no_grad`.
    @torch.inference_mode()
    def run(inputs: dict[str, Any]) -> Any:
        # Keras' `convert_to_tensor` takes longer than a layer of a few tokens.
        convert = partial(torch.as_tensor, device=variables[0].value.device)
        return predict([(map_outputs(convert, inputs),)])

    return run


_MAKERS: dict[str, Callable[["AlbertTask", list[Any]], Run]] = {
    "tensorflow": _make_for_tensorflow,
    "jax": _make_for_jax,
    "torch": _make_for_torch,
}


def compile_function(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that reads the weights of a model, as for `predict`."""
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        # One program for all shapes.
        return tf.function(function, autograph=False, reduce_retracing=True)
    if backend == "torch":
        import torch  # noqa: PLC0415  (it is the backend)

        return torch.no_grad()(function)
    import jax  # noqa: PLC0415  (it is the backend)

    variables = model.variables

    @jax.jit
    def compiled(values: list[Any], *arguments: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(*arguments)

    return lambda *arguments: call_with_values(compiled, variables, *arguments)


# What Keras calls, and what a step of one instance would run at its own depth.
_STEPS = ("call", "train_step", "test_step", "predict_step")


class DepthViews:
    """The views of a task; see `AlbertTask.with_num_layers`."""

    # A view takes over the attributes of the task in each call of `find`, but its
    # depth, and is kept until the `predict_function` is replaced. Keras does not track
    # it here.

    def __init__(self, task: "AlbertTask") -> None:
        self._task = task
        self._lock = threading.Lock()
        self._made_with: Any = None
        self._views: dict[int, Any] = {}

    def find(self, num_layers: int) -> Any:
        """Return the task with a number of layers, which has been checked."""
        task = self._task
        if num_layers == task.backbone.num_layers:
            return task
        if task.predict_function is None:
            task.batch_outputs.current_function()
        function = task.predict_function
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


def _share(task: "AlbertTask", num_layers: int, view: Any) -> Any:
    for name in _STEPS:
        step = vars(task).get(name)
        if step is not None and getattr(step, "__self__", None) is not task:
            raise ValueError(
                f"`{name}` of this {type(task).__name__} was replaced by a function "
                "that runs all layers. Override it in a subclass, or set it to a "
                "`types.MethodType`, to run another number of layers."
            )
    is_new = view is None
    inner = None if is_new else view.backbone
    backbone = share_attributes(task.backbone, {"num_layers": num_layers}, inner)
    own = {BACKBONE: backbone, "batch_outputs": None}
    view = share_attributes(task, own, view)
    if is_new:
        vars(view)["batch_outputs"] = BatchOutputs(view)
    return view
