"""TensorFlow checkpoints: those of google-research, Model Garden and TF-Hub."""
