"""Processes that a run starts while its target's gRPC threads work start whole."""

from __future__ import annotations

import os
import subprocess
import sys

_FORKS_BESIDE_CALLS = """
import replicator_target_bigquery
import subprocess, threading
from concurrent.futures import ThreadPoolExecutor

import grpc

server = grpc.server(ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/no/method")
stop = threading.Event()

def calls():
    while not stop.is_set():
        try:
            call(b"", timeout=1)
        except grpc.RpcError:
            pass

threads = [threading.Thread(target=calls) for _ in range(3)]
for thread in threads:
    thread.start()
codes = {subprocess.run(["true"], preexec_fn=lambda: None).returncode for _ in range(40)}
stop.set()
for thread in threads:
    thread.join()
server.stop(0)
assert codes == {0}, codes
"""


def test_processes_forked_beside_grpc_calls_are_not_touched_by_grpc() -> None:
    """As pyspark forks to start the JVM. With gRPC's own handlers one of 30 is aborted, and each is reported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    ended = subprocess.run(
        [sys.executable, "-c", _FORKS_BESIDE_CALLS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "fork" not in ended.stderr
