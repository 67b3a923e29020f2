"""Statements of the log that change tables: read from their text, applied to table definitions, kept by log position."""
