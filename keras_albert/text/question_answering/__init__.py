"""Preprocessing for extractive question answering."""
