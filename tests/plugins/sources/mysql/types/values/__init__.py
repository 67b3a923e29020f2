"""Tests of character sets."""
