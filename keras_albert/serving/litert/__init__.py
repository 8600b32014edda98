"""Export to LiteRT."""
