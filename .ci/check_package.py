"""Checks a wheel and a source distribution as their users get them.

    python .ci/check_package.py DIST

DIST contains both. The wheel is installed in a new environment, which finds its
dependencies in the environment of this program, so that nothing else is installed. In
an empty directory, away from the repository, the first example of the README, the
command line and the bundled preset must work.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What is easily left out of a wheel: files that are no modules.
_PRESET = ("README.md", "config.json", "metadata.json", "preprocessor.json")
_PRESET += ("task.json", "task.weights.h5", "tokenizer.json")
_DIFFERENCE = ("difference.safetensors", "learning_curve.png")
_WEIGHTS, _ASSETS = "model.weights.h5", "assets/tokenizer/vocabulary"
REQUIRED = {
    "keras_albert/py.typed",
    *(
        f"keras_albert/exports/web_page_files/{file}"
        for file in ("index.html", "page.css", "page.js", "answers.js")
    ),
    *(
        f"keras_albert/presets/albert_{name}_en_uncased{use}/{file}"
        for name, use, files in (
            ("tiny", "", (_WEIGHTS, f"{_ASSETS}.spm", "curve.png")),
            ("small", "", (_WEIGHTS, f"{_ASSETS}.txt", "compression.png")),
            ("small", "_sst2", _DIFFERENCE),
            ("small", "_ner", _DIFFERENCE),
            ("small", "_squad", _DIFFERENCE),
        )
        for file in (*_PRESET, *files)
    ),
}
_EXAMPLE = """
import doctest, sys
from pathlib import Path

import keras_albert

place = Path(keras_albert.__file__).resolve()
assert Path(sys.prefix).resolve() in place.parents, f"{place} is not that of the wheel"
block = Path(sys.argv[1]).read_text(encoding="utf-8").split("```python")[1]
test = doctest.DocTestParser().get_doctest(
    block.partition("```")[0], {}, "README.md", sys.argv[1], 0)
assert test.examples, "the README begins with no example"
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
failed, tried = doctest.DocTestRunner(optionflags=flags).run(test)
print(f"first example of the README: {tried - failed} of {tried} lines")
sys.exit(failed)
"""


def check_wheel(path: Path) -> None:
    """Check which files a wheel contains."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    tops = {name.split("/")[0] for name in names}
    extra = {top for top in tops - {"keras_albert"} if not top.endswith(".dist-info")}
    files = (ROOT / "keras_albert").rglob("*.py")
    modules = {file.relative_to(ROOT).as_posix() for file in files}
    missing = (REQUIRED | modules) - names
    if extra or missing:
        raise SystemExit(f"{path.name}: extra {extra or '-'}, missing {missing or '-'}")
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


def check_source(path: Path) -> None:
    """Check that a source distribution contains the tests and what they need."""
    with tarfile.open(path) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    required = {"README.md", "LICENSE", "CHANGELOG.md", "noxfile.py", "conftest.py"}
    required |= {"tests/conftest.py", "examples/quickstart.py", *REQUIRED}
    if missing := required - names:
        raise SystemExit(f"{path.name}: missing {missing}")
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


def check_installed(wheel: Path, place: Path) -> None:
    """Install a wheel in a new environment, and run it in an empty directory."""
    environment, empty = place / "environment", place / "empty"
    empty.mkdir()

    def run(*command: str | Path) -> str:
        return subprocess.run(
            command,
            check=True,
            cwd=empty,
            env=_variables(),
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    run(sys.executable, "-m", "venv", environment)
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    python, program = binaries / "python", binaries / "keras-albert"
    run(*(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index"), wheel)
    # After its own packages come those of this environment. Their .pth files, such as
    # that of an editable installation, are not read.
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    Path(own.strip(), "session.pth").write_text("\n".join(paths), encoding="utf-8")

    shown = run(program, "--version")
    print(shown.splitlines()[0], flush=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if not shown.startswith(f"keras-albert {project['project']['version']}\n"):
        raise SystemExit("The installed version is another one.")
    run(program, "pretrain", "--help")
    print(run(python, "-c", _EXAMPLE, ROOT / "README.md"), end="")


def _variables() -> dict[str, str]:
    """Return the environment's variables, without those that lead to the repository."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {"KERAS_BACKEND": "torch", **kept}


def main() -> None:
    """Check both files of a directory."""
    dist = Path(sys.argv[1]).resolve()
    [wheel], [source] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_wheel(wheel)
    check_source(source)
    with tempfile.TemporaryDirectory() as place:
        check_installed(wheel, Path(place))


if __name__ == "__main__":
    main()
