"""Row events decoded into one change batch per table."""
