"""Keeps one process for each started pipeline, and finds it again after the service has ended."""
