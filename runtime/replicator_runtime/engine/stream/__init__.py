"""Streams the changes that one reader emits."""
