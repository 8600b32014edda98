"""The pretraining model, its loss and its optimizer."""
