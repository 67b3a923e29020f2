"""Connections to the server: the driver's errors, grants, the catalogue, and packets read in bulk."""
