"""Tests of values: types, limits, and equality between snapshot and log."""
