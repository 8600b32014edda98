"""Folders that other programs serve."""
