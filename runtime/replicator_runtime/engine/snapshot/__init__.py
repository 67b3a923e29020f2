"""Copies the existing rows of tables."""
