"""Pretraining examples and their batches."""
