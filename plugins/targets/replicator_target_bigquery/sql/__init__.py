"""Statements as text; nothing here sends a request, and every name and value is quoted by `sql.text`."""
