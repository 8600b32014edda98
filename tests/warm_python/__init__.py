"""Python programs forked from a process that has imported the libraries.

To import TensorFlow and PyTorch takes longer than most programs of tests run.
"""
