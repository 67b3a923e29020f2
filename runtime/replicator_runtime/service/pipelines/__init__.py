"""Pipelines that the service runs: created, started, stopped, edited, deleted."""
