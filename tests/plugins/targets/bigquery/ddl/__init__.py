"""Tests of changes of structure."""
