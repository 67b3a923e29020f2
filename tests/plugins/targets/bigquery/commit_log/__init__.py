"""Tests of the commit log."""
