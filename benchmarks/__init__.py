"""Benchmarks: run all with `python -m benchmarks`, or a file on its own."""
