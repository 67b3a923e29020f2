"""The live files of a table, in columns."""
