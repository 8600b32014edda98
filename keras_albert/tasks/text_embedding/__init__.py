"""Text embedding: vectors whose cosine is the similarity of texts."""
