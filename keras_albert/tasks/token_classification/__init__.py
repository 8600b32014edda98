"""Token classification."""
