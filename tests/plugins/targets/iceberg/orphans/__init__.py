"""Files that no snapshot names."""
