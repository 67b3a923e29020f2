"""Alembic runs this: it applies the revisions over the connection that `store.upgrade` has opened and locked."""

from __future__ import annotations

from alembic import context

from replicator_runtime.service.store.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
