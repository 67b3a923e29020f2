"""Statements applied to the definitions of the tables they change."""
