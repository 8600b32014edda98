"""Models for servers."""
