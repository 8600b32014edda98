"""The modules of the site; those that import Sphinx are tested by building it."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
if str(DOCS) not in sys.path:
    sys.path.append(str(DOCS))
