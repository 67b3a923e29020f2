"""Tests of names, types and values as BigQuery has them."""
