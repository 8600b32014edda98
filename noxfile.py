"""What a newcomer and CI run: `nox -s quickstart`, `nox -s tests`."""

import os

import nox

BACKENDS = ("tensorflow", "jax", "torch")
# The layers compute what they compute with it, and one backend's examples will do.
WITHOUT_TENSORFLOW = {
    "jax": ("tests/presets", "tests/text", "tests/tasks/test_every_task.py"),
    "torch": (
        "README.md",
        "keras_albert",
        "tests/commands",
        "tests/examples",
        "tests/presets",
        "tests/serving",
        "tests/tasks",
        "tests/text",
    ),
}
# A file's tests share what they build; one thread each, or the processes would wait
# for each other.
PYTEST = ("pytest", "-n", "auto", "--dist", "loadfile")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
# On Linux a plain "torch" brings gigabytes of CUDA along; name a CPU build here.
TORCH = os.environ.get("KERAS_ALBERT_TORCH", "torch>=2.6")

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests"]


@nox.session
def quickstart(session: nox.Session) -> None:
    """Train, save, export and serve a small classifier."""
    session.install("-e", ".[examples]")
    session.run("python", "examples/quickstart.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Check style and types, then test on all three backends and without TensorFlow.

    Arguments after `--` go to pytest.
    """
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    for backend in BACKENDS:
        session.log(f"tests on {backend}")
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *session.posargs, env=environment)
    session.notify("tests_without_tensorflow", session.posargs)


@nox.session
def tests_without_tensorflow(session: nox.Session) -> None:
    """Test as a JAX or PyTorch user who removed TensorFlow."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("pip", "uninstall", "--yes", "-q", "tensorflow", "tensorflow-text")
    for backend, parts in WITHOUT_TENSORFLOW.items():
        session.log(f"tests on {backend}, without TensorFlow")
        parts = session.posargs or parts  # noqa: PLW2901
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *parts, env=environment)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure; arguments go to `python -m benchmarks`: `-- prediction`, say."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("python", "-m", "benchmarks", *session.posargs)
