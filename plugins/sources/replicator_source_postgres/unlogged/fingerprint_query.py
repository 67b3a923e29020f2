"""Queries the catalogue for fingerprints of tables, all tables in one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.connection import driver, quote_identifier, statement
from replicator_source_postgres.unlogged.fingerprint import PartitionNode, PublicationMembership, TableFingerprint

_SAMPLED_ROWS = 1000
_HALF_OF_ALL_XIDS = 1 << 31

# Types that SQL statements created have identifiers from 16384 on; only these can be altered. A column's type may hold others: in
# an array, a domain, a range or a composite type.
# The link of a partition that is being detached concurrently exists until the end; its rows already do not count.
_TREE = """
WITH RECURSIVE tree(root, member, parent, link) AS (
  SELECT c.oid, c.oid, 0::oid, 0::int8 FROM pg_catalog.pg_class c WHERE c.oid = ANY(%(oids)s)
  UNION ALL
  SELECT t.root, i.inhrelid, i.inhparent, i.xmin::text::int8 FROM tree t
  JOIN pg_catalog.pg_class p ON p.oid = t.member AND p.relkind = 'p'
  JOIN pg_catalog.pg_inherits i ON i.inhparent = t.member {attached}
), members AS (
  SELECT t.root, pg_catalog.string_agg(pg_catalog.concat_ws(':', t.member, t.parent, t.link, c.relfilenode, c.relkind,
    c.relpersistence), ',' ORDER BY t.member) AS listed
  FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.member GROUP BY t.root
), types(root, type) AS (
  SELECT DISTINCT m.root, a.atttypid FROM members m JOIN pg_catalog.pg_attribute a ON a.attrelid = m.root
  WHERE a.attnum > 0 AND a.atttypid >= 16384
  UNION
  SELECT y.root, part.type FROM types y JOIN pg_catalog.pg_type t ON t.oid = y.type CROSS JOIN LATERAL (
    SELECT t.typelem UNION ALL SELECT t.typbasetype
    UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
    UNION ALL SELECT f.atttypid FROM pg_catalog.pg_attribute f
      WHERE f.attrelid = t.typrelid AND f.attnum > 0 AND t.typtype = 'c'
  ) AS part(type) WHERE part.type >= 16384
), publication AS (
  SELECT p.oid, p.xmin::text::int8 AS version, pg_catalog.concat_ws(':', p.pubowner, p.pubviaroot) AS settings,
         p.puballtables
  FROM pg_catalog.pg_publication p WHERE p.pubname = %(publication)s
), facts AS (
  SELECT c.oid, m.listed AS members,
    (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', a.attnum, a.xmin), ',' ORDER BY a.attnum)
     FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) AS columns,
    (SELECT pg_catalog.jsonb_object_agg(e.oid::text, e.enumlabel)
     FROM types y JOIN pg_catalog.pg_enum e ON e.enumtypid = y.type WHERE y.root = c.oid) AS labels,
    (SELECT pg_catalog.jsonb_object_agg(r.oid::text, (SELECT pg_catalog.string_agg(
       pg_catalog.concat_ws(':', f.attnum, f.atttypid, f.attisdropped), ',' ORDER BY f.attnum)
       FROM pg_catalog.pg_attribute f WHERE f.attrelid = r.typrelid AND f.attnum > 0))
     FROM types y JOIN pg_catalog.pg_type r ON r.oid = y.type AND r.typtype = 'c' WHERE y.root = c.oid) AS composites,
    p.oid AS publication, p.version, p.settings, ARRAY(
      SELECT r.oid::int8 FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid {schemas}
      UNION ALL SELECT 0 WHERE p.puballtables ORDER BY 1) AS entries
  FROM members m JOIN pg_catalog.pg_class c ON c.oid = m.root LEFT JOIN publication p ON true
)
"""
_SCHEMAS = (
    "UNION ALL SELECT n.oid::int8 FROM pg_catalog.pg_publication_namespace n WHERE n.pnpubid = p.oid"
    " AND n.pnnspid = c.relnamespace"
)
_DIGESTS = """
SELECT f.oid::int8, pg_catalog.md5(pg_catalog.concat_ws('/', f.members, f.columns, f.labels, f.composites, f.publication,
  f.version, f.settings, f.entries)) FROM facts f
"""
_FINGERPRINTS = """
SELECT f.oid::int8, pg_catalog.md5(pg_catalog.concat_ws('/', f.members, f.columns, f.labels, f.composites, f.publication,
    f.version, f.settings, f.entries)), pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text::int8,
  f.members, f.columns, f.labels, f.composites, f.publication::int8, f.version, f.settings, f.entries
FROM facts f
"""

# A table created as a partition has a column whose catalogue row was written by the same command as its system columns'.
# ATTACH writes the rows of all columns again.
_NEW_PARTITIONS = """
SELECT c.oid::int8, c.relkind = 'r' AND pg_catalog.pg_relation_size(c.oid) = 0 AND c.relfilenode = c.oid,
  (c.relkind = 'p' OR c.relfilenode = c.oid) AND EXISTS (
    SELECT FROM pg_catalog.pg_attribute u
    JOIN pg_catalog.pg_attribute s ON s.attrelid = u.attrelid AND s.attnum = -6 AND s.xmin = u.xmin AND s.cmin = u.cmin
    WHERE u.attrelid = c.oid AND u.attnum > 0 AND NOT u.attisdropped)
FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition that is new since the last fingerprint.

    Attributes:
        never_written: It is an ordinary table with its first file, and that is empty.
        created_attached: It was created by CREATE TABLE … PARTITION OF and not rewritten since, so that it had no rows when
            it became a partition.
    """

    never_written: bool
    created_attached: bool


class FingerprintQuery:
    """Queries over one connection; inside a transaction it shows the transaction's snapshot."""

    def __init__(self, catalogue: Catalogue, publication: str) -> None:
        self._connection = catalogue.connection
        self._catalogue = catalogue
        self._publication = publication
        version = self._connection.info.server_version
        self._facts = _TREE.format(
            attached="AND NOT i.inhdetachpending" if version >= 140000 else "",
            schemas=_SCHEMAS if version >= 150000 else "",
        )

    def _ask(self, query: str, oids: Sequence[int]) -> Iterable[Any]:
        parameters = {"oids": list(oids), "publication": self._publication}
        return self._connection.execute(statement(self._facts + query), parameters)

    def digests(self, oids: Sequence[int]) -> dict[int, str]:
        """A digest of each table's fingerprint now, without tables that do not exist."""
        return dict(self._ask(_DIGESTS, oids))

    def fingerprints(self, oids: Sequence[int]) -> dict[int, TableFingerprint]:
        """Each table's fingerprint now, without tables that do not exist."""
        return {row[0]: _fingerprint(row) for row in self._ask(_FINGERPRINTS, oids)}

    def has_publication(self) -> bool:
        """Whether the publication exists."""
        query = "SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = %s"
        return self._connection.execute(query, [self._publication]).fetchone() is not None

    def new_partitions(self, oids: Sequence[int]) -> dict[int, NewPartition]:
        """How tables became partitions; those that no longer exist are missing."""
        rows = self._connection.execute(_NEW_PARTITIONS, [list(oids)])
        return {oid: NewPartition(*facts) for oid, *facts in rows}

    def holds_rows_older_than(self, oid: int, horizon: int) -> bool:
        """Whether some row was inserted by a transaction before `horizon`, so that no file since then began empty.

        VACUUM FULL, CLUSTER and a move to another tablespace keep a row's transaction; TRUNCATE and ALTER TABLE leave
        no such row. Reads the first rows only; False in doubt.
        """
        facts = self._catalogue.by_oid(oid)
        if facts is None or facts.kind != "r":
            return False
        name = f"{quote_identifier(facts.schema)}.{quote_identifier(facts.name)}"
        query = f"""SELECT DISTINCT r.xmin::text::int8, pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8
                    FROM (SELECT xmin FROM ONLY {name} LIMIT {_SAMPLED_ROWS}) r"""  # noqa: S608 - a quoted name
        try:
            rows = self._connection.execute(statement(query)).fetchall()
        except (driver().errors.InsufficientPrivilege, driver().errors.UndefinedTable):
            return False
        return any(
            end - horizon < _HALF_OF_ALL_XIDS and 0 < (horizon - xmin) % (1 << 32) < _HALF_OF_ALL_XIDS
            for xmin, end in rows
        )


def _fingerprint(row: tuple[Any, ...]) -> TableFingerprint:
    _, digest, horizon, members, columns, labels, composites, publication, version, settings, entries = row
    return TableFingerprint(
        digest,
        horizon,
        PublicationMembership(publication, version, settings, tuple(entries))
        if publication is not None and entries
        else None,
        {int(number): int(xid) for number, xid in (entry.split(":") for entry in (columns or "").split(",") if entry)},
        {int(oid): label for oid, label in (labels or {}).items()},
        {int(oid): text for oid, text in (composites or {}).items()},
        dict(map(_node, members.split(","))),
    )


def _node(text: str) -> tuple[int, PartitionNode]:
    oid, parent, link, file, kind, persistence = text.split(":")
    return int(oid), PartitionNode(int(parent), int(link), int(file), kind, persistence)
