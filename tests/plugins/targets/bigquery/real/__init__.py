"""Tests that `make test-bigquery` runs on the real service."""
