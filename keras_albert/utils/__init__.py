"""Helpers that every folder may use: files, directories, packages, arguments."""
