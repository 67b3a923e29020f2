"""Spark sessions and a standalone cluster."""
