"""transformers' names of weights and of settings, a module for each architecture."""
