"""The commands of `keras-albert`, one a module."""
