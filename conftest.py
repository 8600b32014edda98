"""Which files pytest looks into for examples, and where these run."""

import importlib.util
from pathlib import Path

import pytest

# What only a process with TensorFlow imports.
collect_ignore_glob = (
    []
    if importlib.util.find_spec("tensorflow_text")
    else [
        "keras_albert/exports/saved_model/[!_e]*.py",
        "keras_albert/exports/replay_program.py",
        "keras_albert/exports/write_litert.py",
        "keras_albert/text/tokenizer/graph_*.py",
    ]
)
# Importing a tutorial would run it, and the site's settings need Sphinx.
collect_ignore_glob += [
    "docs/tutorials/*",
    "docs/extensions/*",
    "docs/inventories/*",
    "docs/*.py",
]

# What the examples of these functions need and the tests do not install.
_NODE = Path(__file__).parent / "build" / "node"
_CAN_RUN = {
    "build_index": importlib.util.find_spec("faiss"),
    "export_mediapipe": importlib.util.find_spec("mediapipe"),
    "export_web_page": _NODE.exists(),
    "tf_dataset": importlib.util.find_spec("tensorflow"),
}


def pytest_collection_modifyitems(items):
    """Skip the examples that need what is not installed."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            can_run = _CAN_RUN.get(item.name.rpartition(".")[2], True)
            item.add_marker(pytest.mark.skipif(not can_run, reason="not installed"))


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory):
    """Prepare nine documents, which examples of their readers open."""
    from keras_albert.pretraining import prepare_examples, train_vocabulary_on  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("examples")
    texts, output = folder / "a.txt", folder / "prepared"
    texts.write_text("A fine film.\nIt was long.\nThe end was dull.\n\n" * 9)
    vocabulary = train_vocabulary_on(texts, vocabulary_size=30, hard_vocab_limit=False)
    prepare_examples(texts, output, vocabulary, held_out=0.0, short_seq_prob=0.0)
    return output


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request):
    """Run each example in a directory of its own, as users do."""
    if isinstance(request.node, pytest.DoctestItem):
        directory = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(directory)
        (directory / "js").symlink_to(_NODE)
        if request.node.path.name == "dataset.py":
            (directory / "prepared").symlink_to(request.getfixturevalue("_prepared"))
