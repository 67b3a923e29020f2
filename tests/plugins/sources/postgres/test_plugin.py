"""The plugin's face: settings, offsets, names, and an import without a driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from replicator_sdk import TableId, TableSchema
from replicator_sdk.errors import HistoryLostError
from replicator_sdk.testing.contexts import CollectingConfigurer
from replicator_source_postgres import PostgresConfig, PostgresOffset, PostgresSource, delta_sources
from replicator_source_postgres.connection import quote_identifier, quote_literal
from replicator_source_postgres.plugin import derived_name
from replicator_source_postgres.relation_ids import EmittedNames, RelationIds
from tests.plugins.sources.postgres.pump import source_of
from tests.services.postgres.server import PostgresDatabase

PLACE: dict[str, Any] = {"host": "h", "database": "d", "user": "u"}


def test_importing_the_package_imports_no_driver() -> None:
    code = "import replicator_source_postgres, sys; print([m for m in sys.modules if m.split('.')[0] in ('psycopg', 'adbc_driver_postgresql', 'pyspark')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_it_offers_one_source_with_its_settings() -> None:
    assert list(delta_sources()) == [PostgresSource]
    assert PostgresSource.config_type is PostgresConfig
    assert PostgresSource.offset_type is PostgresOffset


def test_tls_is_verified_by_default_and_no_mode_falls_back_in_silence() -> None:
    assert PostgresConfig(**PLACE).ssl_mode == "verify-full"
    for mode in ("prefer", "allow"):
        with pytest.raises(ValidationError):
            PostgresConfig.model_validate({**PLACE, "sslMode": mode})


@pytest.mark.parametrize("key", ["options", "service", "passfile", "sslKey", "dsn"])
def test_no_other_option_reaches_the_driver(key: str) -> None:
    with pytest.raises(ValidationError):
        PostgresConfig.model_validate({**PLACE, key: "x"})


def test_a_missing_certificate_file_is_reported_before_anything_runs() -> None:
    configurer = CollectingConfigurer()
    PostgresSource(PostgresConfig(**PLACE, ssl_root_cert=Path("/nowhere/ca.pem"))).configure(configurer)
    assert [path for _, path, _ in configurer.failures] == ["sslRootCert"]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_offsets_order_as_the_log_does_and_survive_storing(a: int, b: int) -> None:
    one, two = PostgresOffset(a), PostgresOffset(b)
    assert (one < two, one == two) == (a < b, a == b)
    assert PostgresOffset.from_fields(one.fields()) == one
    assert PostgresOffset.parse(str(one)) == one


def test_another_source_s_fields_are_refused() -> None:
    with pytest.raises(HistoryLostError, match="RPL-3201"):
        PostgresOffset.from_fields({"file": b"x"})


@given(st.text(max_size=80), st.text(max_size=80))
def test_derived_names_are_legal_and_differ_by_pipeline(namespace: str, name: str) -> None:
    derived = derived_name(namespace, name)
    assert len(derived) <= 63
    assert set(derived) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")
    assert derived != derived_name(namespace, name + "x")


def test_any_name_and_text_is_quoted_so_that_the_server_reads_it_back(postgres_database: PostgresDatabase) -> None:
    with postgres_database.connect() as connection:
        for text in ("a", 'q"q', "it's", "back\\slash", "\\'; DROP TABLE x; --", "é🦆", "E'", "%s", "new\nline"):
            row = connection.execute(f"SELECT {quote_literal(text)} AS {quote_identifier(text)}".encode())
            assert row.description is not None
            assert (row.fetchone(), row.description[0].name) == ((text,), text)


def test_the_identity_is_the_server_s_and_the_database_s(postgres_database: PostgresDatabase) -> None:
    source = source_of(postgres_database)
    assert source.identity() == source.identity()
    system, _, database = source.identity().partition("/")
    assert system.isdigit()
    assert database.isdigit()
    with postgres_database.server.database() as other:
        assert source_of(other).identity() != source.identity()


OLD, NEW, OTHER = (TableId("d", name, "s") for name in ("t", "ü", "other"))


def _renamed(names: dict[int, tuple[TableId, TableId | None]], at: int) -> RelationIds:
    ids = RelationIds()
    for oid, (before, _) in names.items():
        ids.captured(oid, before)
    ids.emit(EmittedNames(PostgresOffset(at), PostgresOffset(at, 1), names), None)
    return RelationIds.load(ids.dump())


def test_relation_ids_survive_storing_with_what_was_emitted() -> None:
    ids = _renamed({5: (OLD, NEW), 6: (OTHER, None)}, 100)
    assert ids == {5: NEW}
    assert ids.oid_of(OLD) == ids.oid_of(NEW) == 5
    assert ids.names_at(PostgresOffset(100)) == {5: OLD, 6: OTHER}
    assert ids.names_at(PostgresOffset(100, 1)) == {5: NEW}
    assert RelationIds.load(None) == {}
    ids.emit(EmittedNames(PostgresOffset(200), PostgresOffset(200, 1), {5: (NEW, OLD)}), PostgresOffset(150))
    assert [one.base.lsn for one in ids.emitted] == [200]


def test_former_names_that_an_earlier_version_stored_are_found() -> None:
    stored = {"tables": {"5": NEW.to_json()}, "former": [{"oid": 5, **OLD.to_json()}]}
    ids = RelationIds.load(json.dumps(stored).encode())
    assert ids.resolve([OLD], PostgresOffset(1)) == {OLD: 5}


def test_tables_are_known_by_their_names_at_an_offset() -> None:
    ids = _renamed({5: (OLD, NEW), 6: (NEW, OLD)}, 100)
    assert ids.resolve([OLD, NEW, OTHER], PostgresOffset(100)) == {OLD: 5, NEW: 6}
    assert ids.resolve([OLD, NEW], PostgresOffset(101)) == {OLD: 6, NEW: 5}


def test_a_table_copied_under_its_later_name_is_known_by_it_before_the_rename_too() -> None:
    ids = _renamed({5: (OLD, NEW)}, 100)
    assert ids.resolve([NEW], PostgresOffset(1)) == {NEW: 5}
    ids.copied(7, OLD)  # a new table of the former name
    assert ids.resolve([OLD, NEW], PostgresOffset(1)) == {OLD: 7, NEW: 5}


def test_a_name_whose_table_was_copied_under_another_one_is_lost_until_it_is_copied() -> None:
    ids = RelationIds()
    ids.captured(5, OLD)
    ids.copied(5, NEW)
    assert (ids.lost, ids.resolve([OLD, NEW], PostgresOffset(1))) == ({OLD: NEW}, {NEW: 5})
    ids.captured(7, OLD)
    assert ids == {5: NEW}
    ids.copied(7, OLD)
    assert (ids, ids.lost) == ({5: NEW, 7: OLD}, {})


def _copy(oid: int, name: TableId) -> TableSchema:
    return TableSchema(name, (), (), str(oid))


def test_a_copy_is_of_the_table_that_it_says_whatever_its_name_is() -> None:
    ids = _renamed({5: (OLD, NEW), 6: (NEW, OLD)}, 100)
    swapped = [_copy(5, NEW), _copy(6, OLD)]
    assert ids.identify(swapped, PostgresOffset(100)) == {NEW: 5, OLD: 6}
    assert ids.identify([_copy(7, OLD)], PostgresOffset(101)) == {OLD: 7}
    # A copy of an earlier version is found by its name.
    assert ids.identify([TableSchema(OLD, ()), _copy(5, NEW)], PostgresOffset(101)) == {OLD: 6, NEW: 5}


def test_of_two_copies_of_a_table_the_one_with_its_last_name_is_found() -> None:
    ids = _renamed({5: (OLD, NEW)}, 100)
    for offset in (100, 101):
        assert ids.identify([_copy(5, OLD), _copy(5, NEW)], PostgresOffset(offset)) == {NEW: 5}
