"""Tests of findings before a run."""
