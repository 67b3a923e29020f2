"""Source tables, columns and types as BigQuery has them."""
