"""Tests of converting values of whole columns."""
