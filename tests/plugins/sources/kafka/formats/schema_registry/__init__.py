"""Tests of schema registries, small and real."""
