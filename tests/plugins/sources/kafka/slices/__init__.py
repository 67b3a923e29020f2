"""Tests of reading ranges of partitions."""
