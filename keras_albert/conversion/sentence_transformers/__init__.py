"""Folders of sentence-transformers."""
