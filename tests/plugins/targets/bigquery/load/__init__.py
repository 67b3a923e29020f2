"""Tests of snapshots that are written to the bucket and loaded."""
