"""Compaction and vacuum of tables."""
