"""Tests from source to target, by real processes."""
