"""Preprocessing for masked language modeling and pretraining."""
