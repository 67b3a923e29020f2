"""Tests of statements as text."""
