"""Preprocessing for token classification."""
