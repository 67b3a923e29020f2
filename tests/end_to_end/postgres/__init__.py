"""Tests from PostgreSQL to a target."""
