"""Tests of start positions, retention and new partitions."""
