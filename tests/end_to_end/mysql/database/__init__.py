"""Source databases: their tables, writers, and comparison with the copy."""
