"""Tests of intermediate tables."""
