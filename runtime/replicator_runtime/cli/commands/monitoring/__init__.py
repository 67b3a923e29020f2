"""The commands for monitoring systems."""
