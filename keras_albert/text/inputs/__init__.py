"""Readers of the texts that users pass."""
