"""Tests of slot, publication, replication stream and the check that the log is still the same."""
