"""A server of a SavedModel with JSON over HTTP; `keras-albert serve` runs it."""
