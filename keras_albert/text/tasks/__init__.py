"""Preprocessing for each task."""
