"""Masked language modeling and pretraining."""
