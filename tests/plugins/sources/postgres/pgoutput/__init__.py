"""Tests of the decoder of the replication protocol."""
