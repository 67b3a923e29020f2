"""The life of each table in one run: its state, and every decision to stop, copy again or forget a table."""
