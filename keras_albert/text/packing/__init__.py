"""From token ids to rows of one length."""
