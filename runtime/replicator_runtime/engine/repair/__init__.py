"""Writes single rows of tables again as the source has them, with the lease and between attempts."""
