"""Tests of declared types and of values."""
