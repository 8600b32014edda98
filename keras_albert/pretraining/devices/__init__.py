"""Training steps on one device and on several."""
