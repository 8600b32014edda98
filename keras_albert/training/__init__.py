"""Training that goes on after a stop as if there had been none."""
