"""Tests of the findings about server, tables and columns."""
