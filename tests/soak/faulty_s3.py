"""Random histories into Delta with state and tables on an S3 server that refuses, throttles, delays and loses answers at random.

`python -m tests.soak.faulty_s3 --rounds 20 --seed 7` runs one from SQLite; the seed is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from pathlib import Path

from tests.services.s3.server import S3Server, start
from tests.soak.soak import Soak
from tests.soak.sources import Source, Sqlite
from tests.soak.targets import DeltaOnS3

OFTEN = 0.05
"""The part of the requests that meets a fault: a run makes some hundreds."""


def run(source: Source, server: S3Server, folder: Path, rounds: int, seed: int, often: float = OFTEN) -> Soak:
    """Run so many rounds; the server's environment is this process'.

    Raises:
        AssertionError: When source and target differ, or a run fails; with the seed.
    """
    soak = Soak(source, DeltaOnS3(server), folder, seed)
    server.let_chance(seed, often)
    soak.run(rounds)
    return soak


def main() -> None:
    """Run one history from SQLite, as the command line says."""
    options = argparse.ArgumentParser(prog="python -m tests.soak.faulty_s3", description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seed", type=int, default=0, help="of all choices; another one each time when left out")
    options.add_argument("--often", type=float, default=OFTEN, help="the part of the requests that meets a fault")
    chosen = options.parse_args()
    seed = chosen.seed or random.SystemRandom().randrange(1, 10**9)
    print(f"SQLite into Delta on S3: {chosen.rounds} rounds, seed {seed}", flush=True)  # noqa: T201
    folder = Path(tempfile.mkdtemp(prefix="faulty-s3-"))
    server = start()
    os.environ.update(server.environment)
    try:
        soak = run(Sqlite(folder), server, folder, chosen.rounds, seed, chosen.often)
        print(f"equal; stops: {dict(soak.stops)}; faults met: {server.met}")  # noqa: T201
    finally:
        server.stop()


if __name__ == "__main__":
    main()
