"""Tests of table maps and of row offsets."""
