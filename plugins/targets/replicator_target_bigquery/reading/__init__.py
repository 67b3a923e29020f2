"""Reads tables beside the run that writes them, for comparisons with the source."""
