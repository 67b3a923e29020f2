"""Tests of maintenance."""
