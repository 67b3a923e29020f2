"""`make bench`: builds the data, runs us and the peers in turn, writes `RESULTS.md` and `results.jsonl`.

Usage: python -m bench [--rounds N] [--rows N] [--changes N] [--only NAME,…] [--keep]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench import scenarios
from bench.latency import latency
from bench.measure import Book
from bench.orders import orders_server
from bench.report import render
from bench.scenarios import Plan

_HERE = Path(__file__).parent
_SCENARIOS = {
    "snapshot": scenarios.snapshot,
    "backlog": scenarios.backlog,
    "decode": scenarios.decode,
    "latency": latency,
    "memory": scenarios.memory,
    "size": scenarios.table_size,
    "connect": scenarios.through_kafka,
}


def main() -> None:
    """Run what was asked for, one scenario after the other, each on a server of its own."""
    options = _options()
    book = Book(_HERE / "results.jsonl")
    if options.keep:
        book.load()
    else:
        (_HERE / "results.jsonl").unlink(missing_ok=True)
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        plan = Plan(options.rounds, options.rows, options.changes, Path(folder))
        for name in options.only.split(",") if options.only else _SCENARIOS:
            try:
                with orders_server() as orders:
                    _SCENARIOS[name](orders, plan, book)
            except Exception as error:  # noqa: BLE001 - the other scenarios still count; the end says which failed
                print(f"{name} failed: {error}", flush=True)
                failed.append(name)
            (_HERE / "RESULTS.md").write_text(render(book, plan))
    print((_HERE / "RESULTS.md").read_text())
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often; medians are over them")
    parser.add_argument(
        "--rows",
        type=int,
        default=1_000_000,
        help="rows of the table that is changed; four times as many for snapshots",
    )
    parser.add_argument("--changes", type=int, default=2_000_000, help="changes of the large backlog")
    parser.add_argument("--only", default="", help=f"some of {','.join(_SCENARIOS)}")
    parser.add_argument("--keep", action="store_true", help="add to the numbers of the run before")
    return parser.parse_args()


if __name__ == "__main__":
    main()
