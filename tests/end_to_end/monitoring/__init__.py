"""Runs that a real Prometheus watches."""
