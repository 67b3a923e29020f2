"""Tests of conditions in statements."""
