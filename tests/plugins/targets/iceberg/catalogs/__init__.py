"""Catalogs that need a server."""
