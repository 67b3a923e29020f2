"""The steps between two definitions of one table, and whether its rows keep their values."""
