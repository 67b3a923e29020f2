"""Changes of a table's structure, as statements that can be repeated."""
