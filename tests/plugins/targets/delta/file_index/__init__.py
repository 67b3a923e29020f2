"""The columns in which the target keeps a table's live files."""
