"""Tests of the event reader."""
