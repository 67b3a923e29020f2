"""A source's schema as a Delta table holds it: types, definition, encoding, metadata columns."""
