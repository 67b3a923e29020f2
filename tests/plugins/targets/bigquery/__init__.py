"""Tests of the target `bigquery`."""
