"""Asks the source how it is, beside a run."""
