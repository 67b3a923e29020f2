"""Tests of going back to an earlier offset of topics."""
