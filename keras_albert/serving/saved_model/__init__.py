"""Export to SavedModel."""
