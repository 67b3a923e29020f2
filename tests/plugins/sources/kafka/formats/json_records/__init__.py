"""Tests of reading JSON records."""
