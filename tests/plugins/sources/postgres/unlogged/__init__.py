"""Tests of changes that the log does not carry."""
