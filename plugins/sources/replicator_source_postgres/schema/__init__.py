"""Schemas of the captured tables as of the log position that is being read, and the steps between two schemas."""
