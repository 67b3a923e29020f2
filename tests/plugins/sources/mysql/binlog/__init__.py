"""Tests of the binlog's events."""
