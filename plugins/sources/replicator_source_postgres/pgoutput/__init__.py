"""pgoutput, protocol version 1: decodes messages of a replication stream into columns, never into row objects."""

from __future__ import annotations

from replicator_source_postgres.pgoutput.decoder import Decoder, RelationChanges, Truncation
from replicator_source_postgres.pgoutput.message import Relation, RelationColumn
from replicator_source_postgres.pgoutput.window import Window

__all__ = ["Decoder", "Relation", "RelationChanges", "RelationColumn", "Truncation", "Window"]
