"""Processes that were started on hosts which this service cannot see."""
