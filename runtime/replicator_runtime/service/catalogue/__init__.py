"""Installed plugins with the schemas of their settings, and connections."""
