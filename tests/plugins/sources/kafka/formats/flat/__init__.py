"""Tests of records whose value is the row itself."""
