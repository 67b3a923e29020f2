"""Folders of small files, on a local disk or any fsspec file system, and retries of their faults."""
