"""What statements do to databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.catalogue import SYSTEM_DATABASES
from replicator_source_mysql.ddl.parse.effect import CreateDatabase, DropDatabase, Effect


def database_changes(effects: Iterable[Effect], spelled: Callable[[str], str]) -> list[StructureChange]:
    """The databases that one statement creates and drops; of a replaced one both.

    Whether a database that is created IF NOT EXISTS existed is not known of all: it is emitted in any case.

    Args:
        effects: What the statement does, in order.
        spelled: The name of a database as the server stores it.
    """
    found = []
    for effect in effects:
        if isinstance(effect, CreateDatabase | DropDatabase) and effect.database.lower() not in SYSTEM_DATABASES:
            database = TableId(spelled(effect.database), "")
            if isinstance(effect, DropDatabase) or effect.or_replace:
                found.append(StructureChange(DDLOperation.DROP_DATABASE, database))
            if isinstance(effect, CreateDatabase):
                found.append(StructureChange(DDLOperation.CREATE_DATABASE, database))
    return found
