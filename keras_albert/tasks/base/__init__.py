"""What all tasks share: compiling, presets, export."""
