"""Claims about a source, by subject; `source_suite` puts them together."""
