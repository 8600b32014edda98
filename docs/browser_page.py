"""Writes the page that runs the shipped models: `python docs/browser_page.py SITE`.

Without npm's packages in build/node, which `nox -s docs` installs, SITE/browser only
says that they are missing.
"""

import sys
from pathlib import Path

import keras_albert
from keras_albert.exports import export_web_page

_NODE = Path(__file__).resolve().parents[1] / "build" / "node"
_NAME = "albert_small_en_uncased"
_MODELS = {
    "Sentiment": ("AlbertClassifier", "_sst2"),
    "Names": ("AlbertTokenClassifier", "_ner"),
    "Questions about a text": ("AlbertQuestionAnswerer", "_squad"),
    "Similarity of two texts": ("AlbertTextEmbedder", ""),
}
_MISSING = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>keras_albert in this browser</title>
<p>This site was built without npm, and so without the models that run in a browser:</p>
<pre>keras-albert export albert_small_en_uncased_sst2 page --format web_page</pre>
</html>
"""


def write(folder: Path) -> None:
    """Write the page of all models, or one without any."""
    if not (_NODE / "node_modules").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(_MISSING, encoding="utf-8")
        return
    tasks = {
        title: getattr(keras_albert, cls).from_preset(f"{_NAME}{suffix}")
        for title, (cls, suffix) in _MODELS.items()
    }
    export_web_page(tasks, folder, _NODE)


if __name__ == "__main__":
    write(Path(sys.argv[1], "browser"))
