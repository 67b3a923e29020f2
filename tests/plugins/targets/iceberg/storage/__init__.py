"""What the target says of its files."""
