"""Settings of the site; `nox -s docs` builds it.

`KERAS_ALBERT_TUTORIALS=off` shows tutorials without executing them.
"""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# === Project ===
project = "keras_albert"
author = "The keras_albert authors"
copyright = "The keras_albert authors"  # noqa: A001  (Sphinx' name)
_init = (HERE.parent / "keras_albert" / "__init__.py").read_text(encoding="utf-8")
release = re.findall(r'^__version__ = "(.*)"$', _init, re.MULTILINE)[0]
version = release
# The address of the public repository, such as https://github.com/NAME/keras_albert.
# Links to sources and to Colab are shown only if it is set; its branch "notebooks" has
# the tutorials as notebooks.
repository = ""

# === What is read ===
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    # After napoleon: it completes the fields that napoleon makes.
    "sphinx_autodoc_typehints",
    "sphinx_copybutton",
    "sphinx_design",
    "extensions.charts",
    "extensions.docstrings",
    "extensions.links",
    "extensions.reference",
    "extensions.tutorials",
]
# A tutorial's source is a Python file, so other Python files must be named here.
exclude_patterns = ["conf.py", "*.py", "extensions/*", "inventories/*", "_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
# The function that `extensions/docstrings.py` sets.
suppress_warnings = ["config.cache", "mystnb.mime_priority"]
# Data in docstrings of pages is plain text, not LaTeX.
myst_update_mathjax = False

# === Tutorials ===
nb_custom_formats = {".py": "tutobook.to_notebook"}
nb_execution_mode = os.environ.get("KERAS_ALBERT_TUTORIALS", "cache")
nb_execution_cache_path = str(HERE.parent / "build" / "tutorials")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
# What a tutorial shows on another backend than that of the build.
tutorial_backends = {"several_devices": "jax"}
tutorial_repository = repository
# Messages of libraries at their start; an error stops the build.
nb_output_stderr = "remove"
# In a notebook, Beam adds a script that loads jQuery from another host.
nb_mime_priority_overrides = [("html", "application/javascript", None)]

# === Reference ===
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# "On this page" is narrow.
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
always_use_bars_union = True
typehints_defaults = None
typehints_document_rtype = True
typehints_document_rtype_none = False
typehints_use_rtype = False
# Written by `inventories/write.py`: nothing is fetched.
_INVENTORIES = {
    "keras": "https://keras.io/api/",
    "numpy": "https://numpy.org/doc/stable/",
    "python": "https://docs.python.org/3/",
    "tensorflow": "https://www.tensorflow.org/api_docs/python/",
}
intersphinx_mapping = {
    name: (url, str(HERE / "inventories" / f"{name}.inv"))
    for name, url in _INVENTORIES.items()
}

# === Pages ===
html_theme = "pydata_sphinx_theme"
html_title = f"keras_albert {release}"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Before the theme's own scripts.
html_js_files = [("local_files.js", {"priority": 100})]
html_theme_options = {
    "logo": {"text": "keras_albert"},
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_start": ["navbar-logo"],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    # Beside the folders of the versions; `versions.py` writes it.
    "switcher": {"json_url": "../switcher.json", "version_match": release},
    "check_switcher": False,
    "show_version_warning_banner": True,
}
if repository:
    html_theme_options["icon_links"] = [
        {"name": "Source", "url": repository, "icon": "fa-brands fa-github"}
    ]
html_show_sourcelink = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
