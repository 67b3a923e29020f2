"""Findings before a run: what the target can hold, and which rights are missing."""
