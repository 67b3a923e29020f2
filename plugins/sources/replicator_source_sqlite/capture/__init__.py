"""Capture inside the source: triggers, the changelog tables they write, and the detection of schema changes."""
