"""What will go wrong, and the SQL that mends it: of the server, of tables, of columns."""

from replicator_source_postgres.assessment.assessor import PostgresTableAssessor

__all__ = ["PostgresTableAssessor"]
