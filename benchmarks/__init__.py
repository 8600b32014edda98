"""Measurements: `python -m benchmarks`, or one file by itself."""
