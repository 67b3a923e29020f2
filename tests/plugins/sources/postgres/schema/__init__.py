"""Tests of schema changes read from the log and the catalogue."""
