"""Tables of equal columns are renamed and exchange their names at random: no row ends in another table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.sources.mysql.pipeline import Host, Pipeline
from tests.plugins.sources.rename_storm import SEEDS, Storm, only_in_soak
from tests.services.mysql.server import MysqlDatabase

_KEYS = {
    "key": ", PRIMARY KEY (id)",
    "bag": "",
    "partitioned": ", PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS (2",
}


def _rename(names: dict[str, str]) -> list[str]:
    """By one statement."""
    away = [f"{name} TO m{rank}" for rank, name in enumerate(names)]
    return [f"RENAME TABLE {', '.join([*away, *(f'm{rank} TO {to}' for rank, to in enumerate(names.values()))])}"]


@pytest.mark.timeout(300)
@only_in_soak
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_are_renamed_at_random_have_their_own_rows(
    seed: int, mysql_and_mariadb: MysqlDatabase, tmp_path: Path
) -> None:
    db = mysql_and_mariadb
    pipeline = Pipeline(db, tmp_path)

    def execute(statements: Sequence[str]) -> None:
        for statement in statements:
            db.execute(statement)

    def create(name: str, kind: str) -> list[str]:
        text = f"CREATE TABLE {name} (id int NOT NULL, v varchar(250){_KEYS[kind]})"
        return [text.replace("(2)", "2")]

    storm = Storm(execute, create, _rename, random.Random(seed), pipeline.document, Host())

    def source() -> dict[str, list[Any]]:
        return {name: rows for name, rows in pipeline.source_rows().items() if name in storm.kinds}

    storm.whole(source, pipeline.target_rows, seconds=15)
