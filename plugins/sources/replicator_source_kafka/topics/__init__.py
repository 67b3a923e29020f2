"""Decides which topics and partitions are read, from which offset, and whether a saved offset is still valid."""
