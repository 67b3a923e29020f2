"""Tests of statements as tokens."""
