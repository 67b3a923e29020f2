"""The commits of a table: what its newest version says, and how another one is made."""
