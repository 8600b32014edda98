"""`keras-albert predict`."""
