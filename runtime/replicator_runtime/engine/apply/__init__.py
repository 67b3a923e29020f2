"""Applies batches to the target and keeps what follows for each table; shared by both ways to stream."""
