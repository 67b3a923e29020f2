"""`make bench`: builds the data, runs us and the peers in turn, writes `RESULTS.md` and `results.jsonl`.

Usage: python -m bench [--rounds N] [--rows N] [--changes N] [--only NAME,…] [--server NAME] [--keep] [--into FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.comparisons import bigquery, iceberg, mysql, postgres, topics
from bench.comparisons.commits import commits
from bench.comparisons.latency import latency
from bench.comparisons.lookup import lookup
from bench.comparisons.many_tables import many_tables
from bench.comparisons.paused import paused
from bench.comparisons.turns import Plan
from bench.comparisons.verified import verified
from bench.data.mysql_orders import SERVERS, MysqlOrders, mysql_orders_server
from bench.data.postgres_orders import Orders, orders_server
from bench.measure import Book
from bench.report import render

_ON_POSTGRES: dict[str, Callable[[Orders, Plan, Book], None]] = {
    "snapshot": postgres.snapshot,
    "backlog": postgres.backlog,
    "observed": postgres.observed,
    "decode": postgres.decode,
    "latency": latency,
    "paused": paused,
    "verify": verified,
    "memory": postgres.memory,
    "size": postgres.table_size,
    "connect": postgres.through_kafka,
    "topic": topics.drain,
    "tables": many_tables,
    iceberg.ICEBERG_SNAPSHOT: iceberg.snapshot,
    iceberg.ICEBERG_BACKLOG: iceberg.backlog,
}
_ON_MYSQL: dict[str, Callable[[MysqlOrders, Plan, Book], None]] = {
    "mysql-snapshot": mysql.snapshot,
    "mysql-backlog": mysql.backlog,
    "mysql-decode": mysql.decode,
}

_WITHOUT_SOURCE: dict[str, Callable[[Plan, Book], None]] = {
    "bigquery": bigquery.bigquery,
    "commits": commits,
    "lookup": lookup,
}


def main() -> None:
    """Run what was asked for, one scenario after the other, each on a server of its own."""
    options = _options()
    options.into.mkdir(parents=True, exist_ok=True)
    numbers, page = options.into / "results.jsonl", options.into / "RESULTS.md"
    book = Book(numbers)
    if options.keep:
        book.load()
    else:
        numbers.unlink(missing_ok=True)
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        plan = Plan(options.rounds, options.rows, options.changes, Path(folder), options.server)
        for name in options.only.split(",") if options.only else (*_ON_POSTGRES, *_ON_MYSQL, *_WITHOUT_SOURCE):
            try:
                _measure(name, plan, book)
            except Exception as error:  # noqa: BLE001 - the other scenarios still count; the end says which failed
                print(f"{name} failed: {error}", flush=True)
                failed.append(name)
            page.write_text(render(book, plan))
    print(page.read_text())
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _measure(name: str, plan: Plan, book: Book) -> None:
    if name in _WITHOUT_SOURCE:
        _WITHOUT_SOURCE[name](plan, book)
    elif name in _ON_MYSQL:
        with mysql_orders_server(plan.server) as mysql:
            _ON_MYSQL[name](mysql, plan, book)
    else:
        with orders_server() as postgres:
            _ON_POSTGRES[name](postgres, plan, book)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often; medians are over them")
    parser.add_argument(
        "--rows",
        type=int,
        default=1_000_000,
        help="rows of the table that is changed; four times as many for snapshots",
    )
    parser.add_argument("--changes", type=int, default=1_000_000, help="changes of the large backlog")
    parser.add_argument("--only", default="", help=f"some of {','.join((*_ON_POSTGRES, *_ON_MYSQL, *_WITHOUT_SOURCE))}")
    parser.add_argument("--server", choices=SERVERS, default="mysql", help="what the scenarios of MySQL run on")
    parser.add_argument("--keep", action="store_true", help="add to the numbers of the run before")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="the folder for both files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
