"""Tests of triggers and of the detection of schema changes."""
