"""Training steps over several devices."""
