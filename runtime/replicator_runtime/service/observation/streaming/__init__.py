"""Event streams of what changes."""
