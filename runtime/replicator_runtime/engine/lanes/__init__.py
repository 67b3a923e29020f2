"""Keeps the changes of paused tables on the state's file system until the target takes them."""
