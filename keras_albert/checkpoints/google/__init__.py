"""TensorFlow checkpoints of google-research, Model Garden and TF-Hub."""
