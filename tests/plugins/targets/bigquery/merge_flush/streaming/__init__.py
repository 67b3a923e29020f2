"""Tests of the ways rows are streamed."""
