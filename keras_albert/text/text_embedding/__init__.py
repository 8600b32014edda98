"""Preprocessing for text embedding."""
