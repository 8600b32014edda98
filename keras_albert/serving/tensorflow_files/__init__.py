"""Readers and writers of TensorFlow's file formats."""
