"""From arguments of `fit` and `predict` to batches."""
