"""What the site adds to Sphinx; `conf.py` lists it."""
