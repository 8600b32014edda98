"""A page that runs models in a browser."""
