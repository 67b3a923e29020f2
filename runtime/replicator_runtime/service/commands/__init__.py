"""Runs the command line in processes of its own, and keeps what long ones print."""
