"""Intermediate tables: their names, columns and rows."""
