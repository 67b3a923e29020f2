"""Decides when which table has which maintenance, and has the target do it step by step."""
