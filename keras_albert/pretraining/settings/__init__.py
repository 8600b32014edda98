"""Settings of a pretraining run."""
