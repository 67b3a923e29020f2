"""Drafts, pipelines, tokens and the audit log of the service, in a database by SQLAlchemy."""
