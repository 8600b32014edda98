"""Readers of the files that commands take."""
