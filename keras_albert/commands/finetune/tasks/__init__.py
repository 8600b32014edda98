"""The tasks that `finetune` trains."""
