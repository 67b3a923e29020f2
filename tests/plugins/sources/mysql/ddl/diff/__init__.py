"""Tests of the steps between two definitions."""
