"""Tests of reading tables for comparisons."""
