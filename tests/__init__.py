"""Tests, one folder per package; each test is a claim and can fail."""
