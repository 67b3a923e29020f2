"""Tests of the findings about server and tables."""
