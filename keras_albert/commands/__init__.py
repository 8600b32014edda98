"""The commands of `keras-albert`, one module each."""
