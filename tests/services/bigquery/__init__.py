"""The BigQuery emulator, the gates before it, and the real service."""
