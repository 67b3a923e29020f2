"""Tests of how changes reach a table."""
