"""Tests of mode `batch`."""
