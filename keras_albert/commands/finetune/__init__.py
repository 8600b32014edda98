"""`keras-albert finetune`."""
