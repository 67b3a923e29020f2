"""Tests of mode `merge-flush`."""
