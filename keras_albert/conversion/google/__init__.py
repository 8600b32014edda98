"""Checkpoints of google-research/albert."""
