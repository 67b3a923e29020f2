"""Statements as text. Nothing here talks to BigQuery; every name and value goes through `sql.text`."""
