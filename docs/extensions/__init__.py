"""The extensions of Sphinx for the site; `conf.py` lists it."""
