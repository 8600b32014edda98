"""The commands and names that the documentation shows exist."""

import ast
import importlib
import re
import shlex
import textwrap
from pathlib import Path

import pytest

import keras_albert
from keras_albert.cli.run_command import build_parser
from keras_albert.presets import BUILTIN_PRESETS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "docs/tutorials/*.py", "examples/*.md")
    for path in ROOT.glob(pattern)
)
# Options of programs that are not part of the repository.
OTHERS = {
    # Of Beam's runner for Dask, and of SLURM.
    *("--dask_client_address", "--dask_partition_size"),
    *("--gpus-per-node", "--nodes", "--requeue", "--signal"),
    *("--batching_parameters_file", "--enable_batching", "--rm"),
    *("--override", "--runner", "--project", "--tf_xla_persistent_cache_directory"),
    *("--master-addr", "--master-port", "--max-restarts", "--nnodes", "--node-rank"),
    *("--no-python", "--nproc-per-node"),
    *("--export_dir", "--init_checkpoint"),
    # Of npm and pip.
    "--no-cache-dir",
    *("--ignore-scripts", "--prefix"),
    *("--directory", "--examples", "--strict", "--no-cache", "--help"),
}


@pytest.fixture(params=PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def page(request):
    return request.param.read_text(encoding="utf-8")


@pytest.fixture
def named(request, page):
    """A page of today's names, unlike those of the changelog."""
    return "" if "CHANGELOG" in request.node.name else page


@pytest.fixture(scope="module")
def known_options():
    _, parsers = build_parser()
    known = {option for parser in parsers.values() for option in _options(parser)}
    for folder in ("examples", "benchmarks", "docs", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            known |= set(re.findall(r'"(--[a-z][\w-]*)"', path.read_text("utf-8")))
    return known | OTHERS


def _options(parser):
    return {option for action in parser._actions for option in action.option_strings}


def shell_commands(text):
    """The commands of fenced shell code, each on one line."""
    blocks = re.findall(r"```(?:bash|shell)\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines]


def inline_code(text):
    without_fences = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [" ".join(x.split()) for x in re.findall(r"`([^`]+)`", without_fences)]


def test_commands_are_parsed(page):
    parser, _ = build_parser()
    for command in shell_commands(page):
        _, is_ours, arguments = command.partition("keras-albert ")
        if is_ours and command.split()[0] != "pip":
            try:
                parser.parse_args(shlex.split(arguments, comments=True))
            except SystemExit:
                pytest.fail(command)


def test_named_commands_exist(page):
    _, parsers = build_parser()
    for code in inline_code(page):
        _, is_ours, arguments = code.partition("keras-albert ")
        # Options in quotes are those of another program.
        words = re.sub(r'"[^"]*"', '""', arguments).split()
        if is_ours and words[0].islower() and not words[0].startswith("--"):
            assert words[0] in parsers, code
            options = {word.split("=")[0] for word in words if word.startswith("--")}
            assert options <= _options(parsers[words[0]]), code


def test_options_exist(page, known_options):
    code = " ".join([*inline_code(page), *shell_commands(page)])
    found = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code))
    unknown = sorted(found - known_options)
    assert not unknown


def test_programs_exist(page):
    code = " ".join([*inline_code(page), *shell_commands(page)])
    programs = re.findall(r"\b(?:examples|benchmarks|docs|tests)/[\w/]+\.\w+", code)
    # A name in capitals stands for any.
    missing = [
        name
        for name in programs
        if not (Path(name).stem.isupper() or (ROOT / name).exists())
    ]
    assert not missing


def test_code_fits_a_screen(page):
    """A line of 88 characters is not cut at 1366 pixels."""
    blocks = re.findall(r"```(?:bash|python|text|json|yaml)\n(.*?)```", page, re.DOTALL)
    assert not [line for line in "".join(blocks).splitlines() if len(line) > 88]


def test_pages_are_found():
    assert len(PAGES) > 40


# Classes of transformers, KerasHub and Model Garden.
OF_OTHERS = re.compile(
    r"AlbertFor\w+|AlbertModel|AlbertConfig|AlbertTokenizerFast|AlbertPreTrainedModel"
    r"|AlbertEncoder"
)


def resolve(name):
    """Return the object with a dotted name, such as `keras_albert.tasks.recipes`."""
    found = keras_albert
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            # A module that is not imported yet.
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def programs(text):
    """Return the fenced Python code without that of doctests."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, code in blocks if ">>>" not in code]


def test_imports_of_programs_exist(named):
    for code in programs(named):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                package = node.module.partition(".")[0]
                for name in node.names if package == "keras_albert" else ():
                    assert resolve(f"{node.module}.{name.name}") is not None


def test_dotted_names_exist(named):
    for name in re.findall(r"(?<![\w./])keras_albert(?:\.[A-Za-z]\w+)+", named):
        resolve(name)


def test_classes_exist(named):
    found = set(re.findall(r"`(Albert[A-Z]\w*)`", named))
    assert not {
        name
        for name in found
        if not hasattr(keras_albert, name) and not OF_OTHERS.fullmatch(name)
    }


def test_presets_exist(named):
    found = set(re.findall(r"\balbert_[a-z0-9_]*en_uncased(?:_[a-z0-9]+)?\b", named))
    assert not found - set(BUILTIN_PRESETS)


def test_a_page_is_read_in_a_few_minutes():
    """Without code and tables; at 250 words a minute."""
    for path in (ROOT / "docs").rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.DOTALL | re.M)
        lines = [line for line in text.splitlines() if not line.startswith("|")]
        words = [word for word in " ".join(lines).split() if re.search(r"\w", word)]
        assert len(words) < 900, path
