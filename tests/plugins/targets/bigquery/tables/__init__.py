"""Tests of who may write a table."""
