"""What a module may not do; `lint-imports` checks what it may import."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from keras_albert.utils.keras_internals import HOOKS

PACKAGE = Path(__file__).resolve().parents[1] / "keras_albert"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [
    path
    for folder in ("keras_albert", "tests", "examples", "benchmarks")
    for path in sorted((PACKAGE.parent / folder).rglob("*.py"))
]

# They are the TensorFlow part.
NEEDS_TENSORFLOW = {
    str(path.relative_to(PACKAGE))
    for pattern in (
        "exports/saved_model/[!_e]*.py",  # all but `export.py`
        "serve/model.py",
        "exports/write_litert.py",
        "exports/replay_program.py",
        "devices/strategy_trainer.py",
        "preprocessors/in_graph.py",
    )
    for path in PACKAGE.glob(pattern)
}


def name_of(path):
    return str(path.relative_to(PACKAGE.parent))


def imports(path, everywhere=True):
    """The modules that a file imports; only when it is imported itself if not so."""
    nodes = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += ast.iter_child_nodes(node)


def test_the_walk_finds_imports(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("import a.b\ndef f():\n    from c import d\nclass C:\n  import e\n")
    assert sorted(imports(path)) == ["a.b", "c", "c.d", "e"]
    assert sorted(imports(path, everywhere=False)) == ["a.b", "e"]


def test_only_tensorflows_part_needs_tensorflow():
    # Nor any other backend, nor what only examples or tests have.
    never = {"jax", "torch", "transformers", "matplotlib", "pandas", "pytest"}
    for path in MODULES:
        roots = {module.split(".")[0] for module in imports(path, everywhere=False)}
        needs = bool({"tensorflow", "tensorflow_text"} & roots)
        expected = str(path.relative_to(PACKAGE)) in NEEDS_TENSORFLOW
        assert needs == expected, name_of(path)
        assert not roots & never, name_of(path)


def private_names(tree):
    """The private attributes that a file uses, with what they are attributes of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!.*__$)", node.attr):
            yield node.attr, ast.unparse(node.value)


def definitions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_the_walk_finds_private_names():
    tree = ast.parse("class C:\n  _a: int\n  def _b(self): self._c = x._d.__e__")
    assert dict(private_names(tree)) == {"_c": "self", "_d": "x"}
    assert set(definitions(tree)) == {"C", "_a", "_b", "_c"}


def test_private_names_of_others_stand_in_one_file():
    """In `utils/keras_internals.py`; an override may call what it overrides."""
    internals = PACKAGE / "utils" / "keras_internals.py"
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    theirs = {name for name, _ in private_names(trees.pop(internals))}
    ours = {name for tree in trees.values() for name in definitions(tree)}
    ours |= {"_exit", "_replace"}  # documented
    for path, tree in trees.items():
        names = private_names(tree)
        found = [(name, of) for name, of in names if name in theirs or name not in ours]
        found += [x for x in private_names(tree) if x[0] in HOOKS and x[1] != "super()"]
        assert not found, name_of(path)


def test_tensorflow_is_an_extra():
    """JAX and PyTorch do without; what KerasHub requires is not ours to answer for."""
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert not [x for x in project["dependencies"] if x.startswith("tensorflow")]
    names = [
        re.split("[<>=!;]", requirement)[0]
        for requirement in project["optional-dependencies"]["tensorflow"]
    ]
    assert names == ["tensorflow", "tensorflow-text"]


def test_files_are_short():
    lines = {
        name_of(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES
    }
    assert not {name: count for name, count in lines.items() if count > 800}


def test_folders_are_small():
    folders = Counter(path.parent for path in MODULES if path.stem != "__init__")
    assert not {name_of(path): n for path, n in folders.items() if n > 16}


def test_folders_inside_export_nothing():
    """Importing one of their files must not import all of them."""
    for path in MODULES:
        if path.stem == "__init__" and len(path.relative_to(PACKAGE).parts) > 2:
            body = ast.parse(path.read_text(encoding="utf-8")).body
            assert len(body) == 1, name_of(path)
            assert ast.get_docstring(ast.Module(body, [])), name_of(path)
