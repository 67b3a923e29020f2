"""Source and Delta are equal after every run, whatever an S3 server with tables and state refuses, delays or does not answer.

`make soak` runs it, 20 rounds from SQLite; `make test` has `tests/crash/object_store`, which meets the same faults.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.services.s3.server import S3Server
from tests.soak.faulty_s3 import run
from tests.soak.sources import Sqlite

ROUNDS = min(20, int(os.environ.get("SOAK_ROUNDS") or 0))
SEED = int(os.environ.get("SOAK_SEED") or 0) or random.SystemRandom().randrange(1, 10**9)

pytestmark = pytest.mark.timeout(600 + ROUNDS * 120)


@pytest.mark.skipif(not ROUNDS, reason="`make soak` runs it")
def test_target_equals_source_whatever_answers_get_lost(s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    del s3_bucket  # whose fixture gives the server's address to this process
    print(f"sqlite into Delta on S3: {ROUNDS} rounds, seed {SEED}")  # noqa: T201
    soak = run(Sqlite(tmp_path), s3_server, tmp_path, ROUNDS, SEED)
    met = s3_server.met
    assert met, "no fault was met"
    print(f"equal; stops: {dict(soak.stops)}; faults met: {met}")  # noqa: T201
