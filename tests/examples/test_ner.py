"""The example of entities, on a few sentences."""

import pytest

from tests.examples.test_examples import run

SENTENCES = [
    "Ada\tB-person\nLovelace\tI-person\nlived\tO\nin\tO\nLondon\tB-place\n",
    "the\tO\nold\tO\ntown\tO\nof\tO\nYork\tB-place\n",
]


def test_entities_are_learned_from_conll_files(tmp_path):
    pytest.importorskip("seqeval")
    for part in ("train", "dev"):
        (tmp_path / f"{part}.conll").write_text("\n".join(SENTENCES * 8))
    output = tmp_path / "preset"
    printed = run(
        "ner.py",
        str(tmp_path),
        *("--epochs", "1", "--vocabulary-size", "40", "--output", str(output)),
    )
    assert "precision" in printed
    assert "person" in printed
    assert (output / "task.weights.h5").exists()
