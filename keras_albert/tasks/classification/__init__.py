"""Classification and regression."""
