"""Histories: what an application does to its tables, as data; the reference interpreter says what the tables hold after it."""
