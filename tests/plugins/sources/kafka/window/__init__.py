"""Tests of the reader of all topics as one stream."""
