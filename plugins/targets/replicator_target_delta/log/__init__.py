"""A Delta table's transaction log: read from its files, written through Delta's own library."""
