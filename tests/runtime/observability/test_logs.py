"""Every line of the log has one form, whoever wrote it, and none holds a secret."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
import structlog

from replicator_runtime.observability import redaction
from replicator_runtime.observability.logs import configure_logging, get_logger, set_run
from replicator_runtime.observability.next_steps import Subject, set_subject
from replicator_sdk.errors import NeedsUserError

SECRET = "pa$$ w'ord/42"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hooks = root.handlers[:], root.level, (sys.excepthook, threading.excepthook, sys.unraisablehook)
    raising = logging.raiseExceptions
    redaction.register_secret(SECRET)
    yield
    set_run()
    root.handlers[:], logging.raiseExceptions = handlers, raising
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def _lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_the_documented_keys_in_their_order(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream=stream)
    set_run("shop", "run-1")
    get_logger("replicator.engine").info("applied", table="s.t", position="0/1", rows=3)
    (line,) = _lines(stream)
    assert list(line)[:7] == ["ts", "level", "event", "pipeline", "run_id", "table", "position"]
    assert line | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "event": "applied",
        "pipeline": "shop",
        "run_id": "run-1",
        "table": "s.t",
        "position": "0/1",
        "logger": "replicator.engine",
        "rows": 3,
    }
    assert str(line["ts"]).endswith("Z")


def test_libraries_warnings_and_threads_write_the_same_form(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream=stream)
    set_run("shop", "run-1")
    logging.getLogger("lib").warning("value %s", 3, extra={"code": "RPL-1", "table": "s.t"})
    warnings.warn("old", stacklevel=1)
    thread = threading.Thread(target=lambda: 1 / 0, name="reader")
    thread.start()
    thread.join()
    library, warning, failed = _lines(stream)
    assert (library["event"], library["code"], library["table"]) == ("value 3", "RPL-1", "s.t")
    assert "old" in str(warning["event"])
    assert failed["thread"] == "reader"
    assert "ZeroDivisionError" in str(failed["exception"])
    assert all(line["run_id"] == "run-1" for line in (library, warning, failed))


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_way_into_the_log_lets_a_secret_through(stream: io.StringIO, form: str) -> None:
    configure_logging("debug", form, stream=stream)  # type: ignore[arg-type]
    log = get_logger("replicator")
    log.info(f"text {SECRET}", table=SECRET, nested={"a": [SECRET, {SECRET: 1}]}, thing=ValueError(SECRET))  # noqa: G004  # a plugin might
    log.info("key", password="short", authorization="x")
    logging.getLogger("lib").info("dsn %s", f"postgresql://u:{SECRET}@h/db")
    logging.getLogger("lib").info("broken %d %d", SECRET)  # noqa: PLE1206  # as a library might
    warnings.warn(f"warned of {SECRET}", stacklevel=1)
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        log.exception("failed")
        log.warning("failed", exc_info=error)
        logging.getLogger("lib").exception("failed", stack_info=True)

    def fail() -> None:
        raise RuntimeError(SECRET)

    thread = threading.Thread(target=fail, name=SECRET)
    thread.start()
    thread.join()
    text = stream.getvalue()
    assert len(text.splitlines()) >= 9
    assert SECRET not in text
    assert not redaction.contains_secret(text)
    assert "short" not in text


def test_an_error_of_ours_brings_its_code_hint_and_places_along(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream=stream)
    try:
        raise NeedsUserError("no", code="RPL-7", hint="do that", table="s.t", position="0/9")
    except NeedsUserError:
        get_logger("replicator").exception("stopped")
    (line,) = _lines(stream)
    assert (line["code"], line["hint"], line["table"], line["position"]) == ("RPL-7", "do that", "s.t", "0/9")
    assert "NeedsUserError" in str(line["exception"])


def test_the_commands_of_an_error_and_of_its_hint_are_those_to_be_given(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream=stream)
    set_subject(Subject("shop.json"))
    try:
        step = "`replicator table retry NAME TABLE`"
        get_logger("replicator").error("table.failing", table="s.t", error=f"no. Next: {step}", hint=step)
    finally:
        set_subject(Subject())
    (line,) = _lines(stream)
    assert (line["error"], line["hint"]) == (
        "no. Next: `replicator table retry shop.json s.t`",
        "`replicator table retry shop.json s.t`",
    )


def test_a_hostile_table_name_forges_no_line_on_a_terminal(stream: io.StringIO) -> None:
    configure_logging("info", "console", stream=stream)
    get_logger("replicator").info("applied", table="x\n2026 [error] forged \x1b[31m\x9b")
    assert len(stream.getvalue().splitlines()) == 1
    assert not {"\x1b", "\x9b"} & set(stream.getvalue())


def test_the_level_holds_for_ours_and_for_libraries(stream: io.StringIO) -> None:
    configure_logging("warning", "json", stream=stream)
    get_logger("replicator").info("no")
    logging.getLogger("lib").info("no")
    logging.getLogger("py4j.clientserver").info("never: it repeats every command")
    get_logger("replicator").warning("yes")
    assert [line["event"] for line in _lines(stream)] == ["yes"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level"):
        configure_logging("loud")


def test_an_uncaught_error_reaches_standard_error_without_the_secret() -> None:
    script = (
        "from replicator_runtime.observability.logs import configure_logging\n"
        "from replicator_runtime.observability.redaction import register_secret\n"
        f"configure_logging('info', 'auto'); register_secret({SECRET!r})\n"
        f"raise RuntimeError('uncaught ' + {SECRET!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "RuntimeError: uncaught ***" in done.stderr
    assert SECRET not in done.stderr
