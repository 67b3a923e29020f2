from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from replicator_runtime.cli import stop_signals
from replicator_runtime.cli.stop_signals import StopSignals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_to_stop_and_the_earlier_handlers_are_restored(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    asked: list[str] = []
    with StopSignals(lambda: asked.append("stop"), asked.append) as signals:
        assert signals.exit_code == 0
        os.kill(os.getpid(), number)
        assert asked[0] == "stop"
        assert signals.exit_code == code
    assert signal.getsignal(number) is before


def test_the_second_signal_ends_the_process_at_once() -> None:
    code = (
        "import os, signal, time\n"
        "from replicator_runtime.cli.stop_signals import StopSignals\n"
        "with StopSignals(lambda: None, print):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.6)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still here', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "still here" in done.stdout) == (143, False)


def test_two_signals_at_once_are_one_request_as_timeout_sends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "SAME_REQUEST_SECONDS", 600.0)
    asked: list[str] = []
    with StopSignals(lambda: asked.append("stop"), lambda _: None) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert asked == ["stop"]
    assert signals.exit_code == 143
