"""What a newcomer and CI run: `nox -s quickstart`, `nox -s tests`."""

import os

import nox

# Examples that need no TensorFlow start in half the time where there is none.
EXAMPLES = tuple(
    f"tests/examples/test_{name}.py"
    for name in (
        *("albert_tiny", "fill_mask", "ner", "pairs_and_choices"),
        *("second_task", "squad"),
    )
)
# What computes nothing with the backend, or only through what the other tests hold,
# runs on PyTorch alone, which is the quickest to start: many tests start programs.
ON_PYTORCH = (
    "tests/benchmarks",
    "tests/commands",
    "tests/conversion/*/test_format.py",
    "tests/conversion/tables",
    "tests/conversion/test_convert.py",
    "tests/conversion/test_package_import.py",
    "tests/conversion/transformers/test_*_files.py",
    "tests/conversion/transformers/test_tokenizer_json.py",
    "tests/docs/test_tutorial_format.py",
    "tests/examples",
    "tests/keras_albert_cli",
    "tests/peers/test_google_research.py",
    "tests/peers/test_transformers_*.py",
    "tests/presets",
    "tests/pretraining/prepare",
    "tests/property",
    "tests/serving/saved_model/test_errors.py",
    "tests/serving/test_export_errors.py",
    "tests/serving/onnx/test_documents.py",
    "tests/serving/onnx/test_export.py",
    "tests/serving/onnx/test_int8.py",
    "tests/serving/onnx/test_text.py",
    "tests/serving/tensorflow_files/test_messages.py",
    "tests/serving/verification/test_verify.py",
    "tests/test_architecture.py",
    "tests/utils",
)
# What each backend is asked, and below what it leaves to another run; docstrings and
# the README are outside of tests/.
PARTS = {
    "torch": ("README.md", "keras_albert", "keras_albert_cli", "tests"),
    "tensorflow": ("tests",),
    "jax": ("tests",),
}
WITHOUT_TENSORFLOW = {
    "torch": (
        *EXAMPLES,
        "tests/commands/finetune/test_command.py",
        "tests/presets",
        "tests/serving/onnx/test_export.py",
        "tests/tasks/test_every_task.py",
        "tests/utils",
    ),
    "jax": ("tests/tasks/test_every_task.py", "tests/text"),
}
LEFT = {
    "torch": EXAMPLES,
    "tensorflow": ON_PYTORCH,
    "jax": (*ON_PYTORCH, *WITHOUT_TENSORFLOW["jax"]),
}
# A file's tests share what they build; one thread each, or the processes would wait
# for each other.
PYTEST = ("pytest", "-n", "auto", "--dist", "loadfile", "--durations=30")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
# On Linux a plain "torch" brings gigabytes of CUDA along; name a CPU build here.
TORCH = os.environ.get("KERAS_ALBERT_TORCH", "torch>=2.6")

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests"]


@nox.session
def quickstart(session: nox.Session) -> None:
    """Train, save, export and serve a small classifier."""
    session.install("-e", ".[examples,tensorflow]")
    session.run("python", "examples/quickstart.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Check style and types, then test on all three backends and without TensorFlow.

    Arguments after `--` go to pytest, instead of what a backend leaves to another.
    """
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports", "--no-cache")
    for backend, parts in PARTS.items():
        session.log(f"tests on {backend}")
        left = [f"--ignore-glob={path}" for path in LEFT[backend]]
        asked = session.posargs or (*parts, *left)
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *asked, env=environment)
    session.notify("tests_without_tensorflow", session.posargs)


@nox.session
def tests_without_tensorflow(session: nox.Session) -> None:
    """Test as a JAX or PyTorch user who removed TensorFlow."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("pip", "uninstall", "--yes", "-q", "tensorflow", "tensorflow-text")
    for backend, parts in WITHOUT_TENSORFLOW.items():
        session.log(f"tests on {backend}, without TensorFlow")
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *(session.posargs or parts), env=environment)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure; arguments go to `python -m benchmarks`: `-- prediction`, say."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("python", "-m", "benchmarks", *session.posargs)
