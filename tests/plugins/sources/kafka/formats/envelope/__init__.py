"""Tests of Debezium's envelopes."""
