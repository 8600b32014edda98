"""From text files to pretraining examples."""
