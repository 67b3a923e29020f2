"""Private PostgreSQL servers, version 13 to 18, ready for logical replication.

A server listens on a free loopback port, asks everybody for a password (SCRAM), and keeps its data in a temporary folder.
Durability against a power cut is off, because no test cuts the power: a killed server still recovers what it committed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.services.certificates import ServerCertificate, issue
from tests.services.postgres import programs
from tests.services.processes import (
    LOOPBACK,
    ServerError,
    free_port,
    scratch_folder,
    spawn,
    stop,
    tail,
    unprivileged_account,
    wait_until,
)

Result = TypeVar("Result")
_IN_USE_SECONDS = 60.0
SUPERUSER, PASSWORD = "postgres", "correct horse"
_SETTINGS: Mapping[str, object] = {
    "wal_level": "logical",
    "max_wal_senders": 20,
    "max_replication_slots": 20,
    "max_connections": 60,
    "shared_buffers": "64MB",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "1GB",
    "password_encryption": "scram-sha-256",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "logging_collector": "off",
}


def once_free(run: Callable[[], Result]) -> Result:
    """What `run` gives, once the server no longer says that what it names is in use; the error after a minute."""
    deadline = time.monotonic() + _IN_USE_SECONDS
    while True:
        try:
            return run()
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


class PostgresServer:
    """One private server; start it, use it from any thread, stop it. Everything it wrote goes with `remove()`."""

    def __init__(
        self, version: int = programs.NEWEST, *, tls: bool = False, stored: Path | None = None, **settings: object
    ) -> None:
        """Makes the data folder; the server is not started yet.

        Args:
            version: major version, 13 to 18.
            tls: accept TLS connections only, with a certificate for `localhost` and 127.0.0.1 in `certificate`.
            stored: an archive of the data folder of a stopped server of the same version, which takes the place of a new one.
            **settings: lines of `postgresql.conf` that differ from the tests' usual ones.
        """
        self.version, self.host, self.port = version, LOOPBACK, free_port()
        self.user, self.password = SUPERUSER, PASSWORD
        self.certificate: ServerCertificate | None = None
        self._account = unprivileged_account()
        self._folder = scratch_folder(f"postgres{version}")
        self._programs = programs.usable_by(self._account, version) / "bin"
        self.data, self.log = self._folder / "data", self._folder / "log"
        self._settings = {**_SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        if stored:
            self._restore(stored)
        else:
            self._initialise(tls=tls)

    def _restore(self, stored: Path) -> None:
        with tarfile.open(stored) as archive:
            archive.extractall(self.data)
        self._give(self.data, *self.data.rglob("*"))

    def _initialise(self, *, tls: bool) -> None:
        self.data.mkdir(mode=0o700)
        password_file = self._folder / "password"
        password_file.write_text(self.password)
        self._give(self.data, password_file)
        self._run(
            "initdb", "--pgdata", self.data, "--username", self.user, "--pwfile", password_file, "--auth=scram-sha-256",
            "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        kind = "host"
        if tls:
            kind = "hostssl"
            self.certificate = issue(self._folder)
            self._give(self.certificate.certificate, self.certificate.key)
            self._settings |= {
                "ssl": "on",
                "ssl_cert_file": self.certificate.certificate,
                "ssl_key_file": self.certificate.key,
            }
        rules = "".join(f"{kind} {databases} all {LOOPBACK}/32 scram-sha-256\n" for databases in ("all", "replication"))
        (self.data / "pg_hba.conf").write_text(rules)

    def _give(self, *paths: Path) -> None:
        if self._account:
            for path in paths:
                os.chown(path, self._account.user, self._account.group)

    def _run(self, program: str, *arguments: str | Path) -> None:
        account = self._account
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            user=account.user if account else None,
            group=account.group if account else None,
            extra_groups=[] if account else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServerError(f"{program} of PostgreSQL {self.version} ended with {done.returncode}:\n{done.stderr}")

    # ------------------------------------------------------------ life

    @property
    def running(self) -> bool:
        """Whether the server process lives; it may still be recovering."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> PostgresServer:
        """Starts the server on its port and waits until it answers; the first start may move to another free port."""
        first = self._process is None
        for _ in range(5):
            options = [f"--{name}={value}" for name, value in {**self._settings, "port": self.port}.items()]
            command: list[str | Path] = [self._programs / "postgres", "-D", self.data, *options]
            said = self.log.stat().st_size if self.log.exists() else 0
            self._process = spawn(
                command, log=self.log, account=self._account, folder=self._folder, death_signal=signal.SIGQUIT
            )
            try:
                wait_until(self._answers, process=self._process, log=self.log, seconds=180)
            except ServerError:
                # Seen once in some thousand starts: the process is aborted before it has written a word.
                if self._process.returncode == -signal.SIGABRT and self.log.stat().st_size == said:
                    continue
                if "could not bind" not in tail(self.log):
                    raise
                if first:
                    self.port = free_port()
                else:
                    time.sleep(2)  # a connection of another process has it, which ends
            else:
                return self
        raise ServerError(f"PostgreSQL {self.version}: no free port in five attempts:\n{tail(self.log)}")

    def _answers(self) -> bool:
        try:
            with self.connect(connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def stop(self) -> None:
        """Shuts down in order: open sessions are ended, waiting walsenders get the last WAL."""
        if self._process:
            stop(self._process, signal.SIGINT)

    def kill(self) -> None:
        """Kills the server and all its sessions at once, as a crash would; `start()` then recovers."""
        if self._process and self.running:
            sessions = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()  # first, or it would start recovering from the death of its children
            for session in sessions:
                with contextlib.suppress(psutil.NoSuchProcess):
                    session.kill()
            self._process.wait(120)
            psutil.wait_procs(sessions, timeout=60)

    def stop_at_once(self) -> None:
        """An immediate shutdown: sessions end without a word; `start()` then recovers."""
        if self._process:
            stop(self._process, signal.SIGQUIT)

    def wait_until_ready(self) -> None:
        """Waits until the server answers: the death of one of its processes makes it recover."""
        assert self._process is not None
        wait_until(self._answers, process=self._process, log=self.log, seconds=180)

    def restart(self, **settings: object) -> None:
        """Stops and starts again on the same port, with `settings` changed; a setting of None goes back to its default."""
        self.stop()
        merged = {**self._settings, **settings}
        self._settings = {name: value for name, value in merged.items() if value is not None}
        self.start()

    def remove(self) -> None:
        """Stops the server at once and deletes everything it wrote."""
        if self._process:
            stop(self._process, signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ use

    def dsn(self, database: str = "postgres", **parameters: Any) -> str:
        """A libpq connection string; by default for the superuser, and with TLS verified where the server asks for it."""
        defaults: dict[str, Any] = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        if self.certificate:
            defaults |= {"sslmode": "verify-full", "sslrootcert": str(self.certificate.authority)}
        return make_conninfo("", **{**defaults, "dbname": database, **parameters})

    def connect(self, database: str = "postgres", **parameters: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit; the caller closes it."""
        return psycopg.connect(self.dsn(database, **parameters), autocommit=True)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs a statement as superuser on a connection of its own and returns its rows, if it has any.

        What is in use is tried again: the server takes a moment to see that a slot's reader has gone.
        """
        with self.connect(database) as connection:
            cursor = once_free(lambda: connection.execute(statement.encode()))
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def database(self, prefix: str = "shop") -> Iterator[PostgresDatabase]:
        """A fresh database for one test; afterwards its replication slots, its sessions and the database itself are dropped."""
        name = f"{prefix}_{uuid.uuid4().hex[:10]}"
        self._execute_on(name, "CREATE DATABASE {}")
        try:
            yield PostgresDatabase(self, name)
        finally:
            if not self.running:
                self.start()
            self._drop_slots(name)
            self._execute_on(name, "DROP DATABASE IF EXISTS {} WITH (FORCE)")

    def _execute_on(self, database: str, statement: LiteralString) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(database)))

    def _drop_slots(self, database: str) -> None:
        with self.connect() as connection:
            slots = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s"
            deadline = time.monotonic() + 120
            while found := connection.execute(slots, [database]).fetchall():
                for slot, pid in found:
                    if pid:
                        connection.execute("SELECT pg_terminate_backend(%s)", [pid])
                    with contextlib.suppress(psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
                        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
                if time.monotonic() > deadline:
                    raise ServerError(f"slots of {database} are still in use: {found}")


class PostgresDatabase:
    """One database of a server, made for one test."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        """Names an existing database."""
        self.server, self.name = server, name
        self.host, self.port, self.version = server.host, server.port, server.version
        self.user, self.password = server.user, server.password

    @property
    def dsn(self) -> str:
        """The superuser's connection string for this database."""
        return self.server.dsn(self.name)

    def connect(self, **parameters: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit; the caller closes it."""
        return self.server.connect(self.name, **parameters)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement as superuser on a connection of its own and returns its rows, if it has any."""
        return self.server.execute(statement, self.name)
