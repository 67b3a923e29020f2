"""Pipelines that do not copy everything and then follow the log."""
