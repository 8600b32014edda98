"""The tokenizer, its vocabulary and its text rules."""
