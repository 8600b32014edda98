"""Checkpoints of other libraries, both ways."""
