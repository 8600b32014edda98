"""Checkpoints, logs and reports of a pretraining run."""
