"""Tests of decoded change batches."""
