"""A paused table's lane on an object store: found again by the next runs, missed when it is gone, deleted when it is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.worker import run
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import count
from tests.runtime.engine.stream.test_paused_tables import ask, change_more
from tests.runtime.engine.test_run import Host, Shop, fill

if TYPE_CHECKING:
    from pathlib import Path


def lane_files(bucket: str) -> list[str]:
    import fsspec

    found = fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True).find(bucket)
    return sorted(path for path in found if "/lanes/" in path)


def test_a_lane_on_an_object_store_is_kept_over_runs_and_one_that_is_gone_is_missed(
    s3_bucket: str, tmp_path: Path
) -> None:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    shop = Shop(tmp_path)
    shop.document["offsetBasePath"] = f"s3://{s3_bucket}/state"

    def to_the_end() -> None:
        run(build_pipeline(shop.document, host=Host()), until_current=True, progress=Progress())  # type: ignore[arg-type]

    fill(shop)
    to_the_end()
    for harmed in (False, True):
        rows = count("notes")
        ask(shop, "pause", "notes")
        for number in range(2):
            change_more(shop, number)
            to_the_end()
        assert count("notes") == rows
        kept = lane_files(s3_bucket)
        assert len(kept) == 2
        if harmed:
            import fsspec

            fsspec.filesystem("s3").rm(kept)
        ask(shop, "resume", "notes")
        steps: list[tuple[str, str]] = []
        in_memory_target.STORAGE.fault = lambda at, table, steps=steps: steps.append((at, table.table))  # type: ignore[misc]
        to_the_end()
        shop.assert_equal()
        assert lane_files(s3_bucket) == []
        assert (("load", "notes") in steps) is harmed
