"""Checkpoints of KerasHub."""
