"""Counts what was replicated of each table, over restarts and kills."""
