"""Tests of table definitions by log position."""
