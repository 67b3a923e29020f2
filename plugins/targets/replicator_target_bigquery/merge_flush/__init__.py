"""Mode `merge-flush`: changes are streamed into intermediate tables and merged at intervals (docs/seeds.md#000-bigquery)."""
