"""Asks the brokers beside a run: whether they answer, what waits, and how long they keep it."""
