"""Data files and delete files."""
