"""Fixtures that tests of several folders share."""

import gc
import os
import pathlib
import sys

import pytest

from tests.warm_python.start import warm_python

if os.environ.get("KERAS_BACKEND") == "jax":
    # XLA compiles for longer than tests compute: with all optimizations, tests of tasks
    # take 75 s instead of 46. Read when its first program is made.
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    )

_ROOT = pathlib.Path(__file__).resolve().parents[1]


# The longest files, which are distributed first: a process that received one of them
# last would work alone.
_LONGEST = (
    "tests/devices",
    "tests/pretraining/test_devices.py",
    "tests/exports/test_every_task.py",
    "tests/tasks/test_every_task.py",
    "tests/tasks/test_quantized.py",
    "tests/exports/test_verification.py",
    "tests/examples",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))
    for item in items:
        if mark := item.get_closest_marker("one_backend"):
            _leave_to_one_backend(item, mark.args)


def _leave_to_one_backend(item, names):
    """Skip a test on other backends than PyTorch, if it has none of the names."""
    from tests.one_backend import on_one_backend

    own = item.nodeid.partition("::")[2]
    for name in names:
        found = item.module
        for part in name.partition("[")[0].split("::"):
            found = getattr(found, part)
        if own == name or own.startswith((f"{name}::", f"{name}[")):
            return
    item.add_marker(on_one_backend)


@pytest.fixture(scope="module", autouse=True)
def _what_other_files_left_is_not_looked_at() -> None:
    """Keras collects garbage whenever a layer loses an attribute, `quantize` twenty
    times: in a process of many tests each took seconds."""
    if "tensorflow" in sys.modules:
        from tensorflow.python.framework import ops

        # TensorFlow keeps each graph that has a gradient of Python (its issue 27492).
        gradients = ops.gradient_registry._registry
        for name in [name for name in gradients if name.startswith("CustomGradient-")]:
            del gradients[name]
    gc.collect()
    gc.freeze()


# Where programs are started for what they do; elsewhere, for how they start.
_STARTS_MANY = tuple(
    f"tests.{folder}."
    for folder in (
        *("checkpoints", "cli.test_predict", "cli.test_prepare", "cli.test_serve"),
        *("cli.test_several_processes", "devices", "docs", "examples", "exports"),
        *("pretraining", "tasks"),
    )
)


@pytest.fixture(scope="session")
def _quick_python(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    # All workers share one.
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with warm_python(folder / "python") as python:
        yield python


@pytest.fixture(scope="module", autouse=True)
def _programs_start_quickly(request):
    """To import the libraries takes longer than most programs run.

    The six programs of `tests/examples/test_tasks.py` take 24 s instead of 85.
    """
    if not f"{request.module.__name__}.".startswith(_STARTS_MANY):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", request.getfixturevalue("_quick_python"))
        yield


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The real data beside a developer's checkout; a test that asks is skipped
    where it is absent."""
    folder = os.environ.get("KERAS_ALBERT_SHARED_DATA")
    path = pathlib.Path(folder) if folder else _ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no shared data at {path}; set KERAS_ALBERT_SHARED_DATA")
    return path


# A little of everything: years before commas, quotes, accents, symbols.
_SENTENCES = (
    "In 2011, the old café on the corner opened again, and it was full by noon.",
    "She paid £12, he paid €15, and nobody asked for the change (as usual).",
    'The captain said "not today" - and the crew, all 24, went back to work.',
    "The river runs north–south through the town of São Bento.",  # noqa: RUF001
    "A naïve reader may well ask why the letters in the attic were never sent.",
    "It rained in 2011, it rained in 2012, and it rained for most of 2013, too.",
    "The children of the village learned to read in the small red school.",
    "He wrote that the answer is in the question; she wrote that it is not.",
    "Every morning the baker carried ten loaves up the hill and sold eleven.",
    "What do you hear when the wind comes in from the sea and the lamps go out?",
    "The committee met on 3, 4 and 5 May and agreed on nothing but the lunch.",
    "There are more stars than we can count, and fewer words than we should like.",
)


@pytest.fixture(scope="session")
def tiny_proto() -> bytes:
    """The bytes of a small uncased ALBERT vocabulary, trained here and now."""
    from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary

    return train_vocabulary(_SENTENCES * 4, vocabulary_size=130)
