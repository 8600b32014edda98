"""The default optimizer and its schedule."""
