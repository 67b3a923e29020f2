"""Declared column types as standard types, and SQLite values as Arrow columns."""
