"""Runs of accounts whose rights are the file system's to decide."""
