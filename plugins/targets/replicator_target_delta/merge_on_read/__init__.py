"""The mode `merge-on-read`: writers append a row for each change, and readers take the latest row of each key (seed 002)."""
