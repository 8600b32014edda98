"""Which files pytest looks into for examples."""

import importlib.util
import os

# Tests leave nothing in the cache of the user.
os.environ.setdefault("KERAS_ALBERT_CACHE", "off")

# What only a process with TensorFlow imports.
collect_ignore_glob = (
    []
    if importlib.util.find_spec("tensorflow_text")
    else [
        "keras_albert/serving/saved_model/[!_e]*.py",
        "keras_albert/serving/replay_program.py",
        "keras_albert/serving/write_litert.py",
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
