"""Relates records to tables: schemas and how they evolve, the table registry, the quarantine table."""
