"""Tests, one folder per room; each test is a claim and can fail."""
