"""The worked examples of docs/seeds.md#001-replicator, to the letter, and what is corrected in them."""

from __future__ import annotations

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_bigquery.batch.keyed_merge import KeyedMerge
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.sql.comparison import KeyColumn
from tests.plugins.targets.bigquery.support.changes import batch, ddl, delete, insert, update
from tests.plugins.targets.bigquery.support.project import Project

CUSTOMERS = TableSchema(
    TableId("myDB", "customers"), (Column("id", INT64, nullable=False), Column("name", STRING)), ("id",)
)
NAMES = TableSchema(TableId("myDB", "names"), (Column("name", STRING),))


def who(key: int, name: str) -> dict[str, object]:
    return {"id": key, "name": name}


EXAMPLE = [
    insert(who(0, "alice"), CUSTOMERS),
    update(who(1, "alice"), CUSTOMERS, who(0, "alice")),
    update(who(2, "alice"), CUSTOMERS, who(1, "alice")),
    delete(who(2, "alice"), CUSTOMERS),
    insert(who(0, "Alice"), CUSTOMERS),
    insert(who(1, "blob"), CUSTOMERS),
    update(who(1, "Bob"), CUSTOMERS, who(1, "blob")),
]


def test_with_a_primary_key_the_staging_table_is_the_seeds(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, CUSTOMERS))
    consumer.apply_batch(batch(1, EXAMPLE))
    staged = project.select(
        "SELECT _sequence_num - 999, _operation, _before_id, _before_name, id, name FROM {d}._staging_customers"
        " ORDER BY _sequence_num"
    )
    assert staged == [
        ["2", "INSERT", None, None, "0", "alice"],
        ["3", "UPDATE", "0", "alice", "1", "alice"],
        ["4", "UPDATE", "1", "alice", "2", "alice"],
        ["5", "DELETE", "2", "alice", "2", None],
        ["6", "INSERT", None, None, "0", "Alice"],
        ["7", "INSERT", None, None, "1", "blob"],
        ["8", "UPDATE", "1", "blob", "1", "Bob"],
    ]
    assert project.select("SELECT _sequence_num - 999, id, name FROM {d}.customers ORDER BY id") == [
        ["6", "0", "Alice"],
        ["8", "1", "Bob"],
    ]
    consumer.stop()


def test_the_net_change_is_the_seeds_diff(project: Project) -> None:
    """5 deletes 2, 6 writes 0, 8 writes 1; the seed's blank row before is no matter any more."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, CUSTOMERS))
    consumer.apply_batch(batch(1, EXAMPLE))
    columns = TableLayout(project.config).target_fields(CUSTOMERS)[1:]
    staged = "(SELECT * FROM {d}._staging_customers)"
    merge = KeyedMerge("unused", staged, columns, (KeyColumn(columns[0], nullable=False),))
    net = project.select(
        f"SELECT _sequence_num - 999, _written, id FROM ({merge.net_changes()}) ORDER BY _sequence_num"
    )
    assert net == [["5", "false", "2"], ["6", "true", "0"], ["8", "true", "1"]]
    consumer.stop()


def test_a_key_that_moves_twice_in_a_batch_leaves_one_row(project: Project) -> None:
    """The seed's diff keeps the row at 0 when one batch holds `0→1→2`."""
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(who(0, "alice"), CUSTOMERS)]))
    consumer.apply_batch(
        batch(
            2,
            [
                update(who(1, "alice"), CUSTOMERS, who(0, "alice")),
                update(who(2, "alice"), CUSTOMERS, who(1, "alice")),
            ],
        )
    )
    assert project.select("SELECT id, name FROM {d}.customers") == [["2", "alice"]]
    consumer.stop()


def test_two_keys_are_swapped_in_a_batch(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(who(1, "one"), CUSTOMERS), insert(who(2, "two"), CUSTOMERS)]))
    consumer.apply_batch(
        batch(
            2,
            [
                update(who(0, "one"), CUSTOMERS, {"id": 1}),
                update(who(1, "two"), CUSTOMERS, {"id": 2}),
                update(who(2, "one"), CUSTOMERS, {"id": 0}),
            ],
        )
    )
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["1", "two"], ["2", "one"]]
    consumer.stop()


def test_without_a_primary_key_the_staging_table_is_the_seeds(project: Project) -> None:
    consumer = project.consumer()

    def named(text: str) -> dict[str, object]:
        return {"name": text}

    first = [insert(named(n), NAMES) for n in ("alice", "alice", "Bob")]
    renamed = [update(named("Alyce"), NAMES, named("alice"))] * 2 + [update(named("Alice"), NAMES, named("Alyce"))] * 2
    gone = [delete(named("Alice"), NAMES)] * 2
    consumer.apply_batch(batch(1, [*first, *renamed, *gone]))
    staged = project.select(
        "SELECT _sequence_num - 999, _operation, _before_name, name FROM {d}._staging_names ORDER BY _sequence_num"
    )
    assert staged[:4] == [
        ["2", "INSERT", None, "alice"],
        ["3", "INSERT", None, "alice"],
        ["4", "INSERT", None, "Bob"],
        ["5", "UPDATE", "alice", "Alyce"],
    ]
    assert staged[7:] == [["9", "DELETE", "Alice", None], ["10", "DELETE", "Alice", None]]
    assert project.select("SELECT name FROM {d}.names") == [["Bob"]]
    consumer.stop()


def test_the_seeds_batch_without_its_deletes_keeps_both_equal_rows(project: Project) -> None:
    """The seed comes to one Bob and one Alice, "which was never possible in the source"."""
    consumer = project.consumer()
    three = [insert({"name": n}, NAMES) for n in ("alice", "alice", "Bob")]
    twice = [update({"name": "Alice"}, NAMES, {"name": "alice"})] * 2
    consumer.apply_batch(batch(1, [*three, *twice]))
    assert project.select("SELECT name FROM {d}.names ORDER BY name") == [["Alice"], ["Alice"], ["Bob"]]
    consumer.apply_batch(batch(2, [delete({"name": "Alice"}, NAMES)]))
    assert project.select("SELECT name FROM {d}.names ORDER BY name") == [["Alice"], ["Bob"]]
    consumer.stop()
