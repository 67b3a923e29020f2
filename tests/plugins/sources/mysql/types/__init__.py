"""Tests of values: the log's form and the text form of every type."""
