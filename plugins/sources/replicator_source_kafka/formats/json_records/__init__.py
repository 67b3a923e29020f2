"""Reads JSON keys and values, with an embedded schema or without."""
