"""The models that `predict` can run, one file per format."""
