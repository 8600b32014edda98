"""Preprocessing for classification and regression."""
