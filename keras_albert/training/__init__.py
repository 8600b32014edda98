"""Training that can be interrupted and resumed with the same result."""
