"""Snapshots: a table's rows at one log position, planned in chunks and read in parallel."""
