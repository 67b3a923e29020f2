"""Bringing tables back to earlier versions, for targets that can."""
