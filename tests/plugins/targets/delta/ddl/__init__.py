"""Tests of DDL events."""
