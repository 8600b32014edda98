"""Preprocessing for multiple choice."""
