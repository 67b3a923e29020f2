"""Tests of connections and the catalogue."""
