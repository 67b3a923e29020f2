"""Tests of the table registry and of schema evolution."""
