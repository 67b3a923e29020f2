"""Findings about server, tables and columns, with the SQL that fixes them."""

from replicator_source_postgres.assessment.assessor import PostgresTableAssessor

__all__ = ["PostgresTableAssessor"]
