"""Kills processes of a plugin, and sees that the runs after it make the tables right."""
