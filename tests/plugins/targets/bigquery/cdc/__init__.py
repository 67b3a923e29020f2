"""Tests of mode `cdc`."""
