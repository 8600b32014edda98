"""Checks of an exported model."""
