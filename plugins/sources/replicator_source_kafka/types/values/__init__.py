"""Converts values of whole columns: bytes, decimals, dates and times."""
