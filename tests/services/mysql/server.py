"""Private MySQL servers, ready for replication, and what MariaDB's have in common with them.

A server listens on a free loopback port, asks for a password, offers TLS, writes a binlog of rows, and keeps its data in a
temporary folder. Durability against a power cut is off, because no test cuts the power: a killed server still recovers what
it committed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from pymysql.cursors import Cursor

from tests.services.certificates import ServerCertificate, issue
from tests.services.debian.packages import put_in_place
from tests.services.mysql.programs import MYSQL_9, Programs, Release, programs
from tests.services.processes import LOOPBACK, ServerError, free_port, scratch_folder, spawn, stop, tail, wait_until

ROOT, PASSWORD = "root", "correct horse"
_TEMPLATE = "template-1"  # another number when what `_initialise` does changes, so that no machine keeps the old one
_ACCESS_DENIED, _NO_SUCH_THREAD = 1045, 1094
_OPTIONS: Mapping[str, object] = {
    "bind_address": LOOPBACK,
    "socket": "",
    "skip_name_resolve": True,
    "character_set_server": "utf8mb4",
    "default_time_zone": "+00:00",
    "log_bin": "binlog",
    "sync_binlog": 0,
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_flush_method": "nosync",
    "innodb_buffer_pool_size": "64M",
    "innodb_log_buffer_size": "4M",
    "innodb_buffer_pool_load_at_startup": False,
    "innodb_buffer_pool_dump_at_shutdown": False,
    "key_buffer_size": "1M",
    "performance_schema": False,
}


class MysqlServer:
    """One private server; start it, use it from any thread, stop it. Everything it wrote goes with `remove()`.

    Attributes:
        host: the loopback address.
        port: its port, which a restart keeps; also its `server_id`.
        user: an account that may do everything, from any address.
        password: its password.
        version: what the server calls itself, for example (9, 7, 4); known once it was started.
        is_mariadb: whether it is MariaDB.
        certificate: files of its TLS certificate, for `localhost` and 127.0.0.1, and of the authority to trust.
        data: its data folder, with the binlog.
        log: its error log.
    """

    is_mariadb: ClassVar[bool] = False

    def __init__(self, release: Release = MYSQL_9, *, gtid: bool = True, **options: object) -> None:
        """Makes the data folder, as new; the server is not started yet.

        Args:
            release: which server, one of `mysql_programs`.
            gtid: MySQL: `gtid_mode` and `enforce_gtid_consistency`. MariaDB, which always has GTIDs: `gtid_strict_mode`.
            **options: options of the server that differ from the tests' usual ones, as lines of `my.cnf` have them, with
                underscores. True and False switch an option on and off; None leaves it at the server's own default.
        """
        self.host, self.port = LOOPBACK, free_port()
        self.user, self.password = ROOT, PASSWORD
        self.version: tuple[int, ...] = ()
        self._programs = programs(release)
        self._folder = scratch_folder(release.name.replace("-", ""))
        self.certificate: ServerCertificate = issue(self._folder)
        self.data, self.log = self._folder / "data", self._folder / "log"
        files = {
            "secure_file_priv": self._folder,  # LOAD DATA and INTO OUTFILE reach no other folder of this machine
            "ssl_ca": self.certificate.authority,
            "ssl_cert": self.certificate.certificate,
            "ssl_key": self.certificate.key,
        }
        self._options: dict[str, object] = {**_OPTIONS, **files, **self._own_options(gtid=gtid), **options}
        self._process: subprocess.Popen[bytes] | None = None
        copy_folder(self._template(self._programs), self.data)

    @staticmethod
    def _own_options(*, gtid: bool) -> dict[str, object]:
        """Options that only this kind of server knows."""
        mode = "ON" if gtid else "OFF"
        return {"gtid_mode": mode, "enforce_gtid_consistency": mode, "mysqlx": "OFF", "auto_generate_certs": False}

    # ------------------------------------------------------------ a data folder to begin with

    @classmethod
    def _template(cls, found: Programs) -> Path:
        """The data folder of a new server, made once on this machine and copied for each server."""
        target = found.folder / _TEMPLATE
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=found.folder.parent, prefix=".partial-") as partial:
            data = Path(partial) / "data"
            cls._initialise(found, data)
            (data / "auto.cnf").unlink(missing_ok=True)  # the identity: each server makes its own
            sparse = Path(partial) / "sparse"
            copy_folder(data, sparse)
            put_in_place(sparse, target)
        return target

    @classmethod
    def _initialise(cls, found: Programs, data: Path) -> None:
        accounts = data.parent / "accounts.sql"
        accounts.write_text("\n".join(root_statements()))
        run_once(found, data, "--initialize-insecure", "--skip-log-bin", f"--init-file={accounts}")

    # ------------------------------------------------------------ life

    @property
    def running(self) -> bool:
        """Whether the server process lives; it may still be recovering."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id of the server started last; None before the first start."""
        return self._process.pid if self._process else None

    def start(self) -> MysqlServer:
        """Starts the server on its port and waits until it answers; the first start may move to another free port."""
        first = self._process is None
        for attempt in range(5):
            if attempt:
                self.port = free_port()
            said_before = self.log.stat().st_size if self.log.exists() else 0
            arguments = option_arguments({"server_id": self.port, **self._options, "port": self.port})
            command = [*self._programs.command, *as_root(), f"--datadir={self.data}", own_tmpdir(self.data), *arguments]
            self._process = spawn(command, log=self.log, environment=self._programs.environment, folder=self._folder)
            try:
                wait_until(self._answers, process=self._process, log=self.log, seconds=180)
            except ServerError:
                stop(self._process)
                if not (first and "Bind on TCP/IP port" in self.log.read_text(errors="replace")[said_before:]):
                    raise
            else:
                return self
        raise ServerError(f"{self._programs.release.name}: no free port in five attempts:\n{tail(self.log)}")

    def _answers(self) -> bool:
        try:
            # The timeout is for a mute stranger on the port; one that speaks has no certificate of ours.
            with self.connect(connect_timeout=5, read_timeout=5) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                found = cursor.fetchall()
        except pymysql.err.OperationalError as error:
            if error.args[0] == _ACCESS_DENIED:
                raise ServerError(f"{self._programs.release.name} does not know the tests' account: {error}") from error
            return False
        self.version = tuple(int(number) for number in re.findall(r"\d+", str(found[0][0]).partition("-")[0]))
        return True

    def stop(self) -> None:
        """Shuts down in order: open sessions are ended, the binlog is closed."""
        if self._process:
            stop(self._process)

    def kill(self) -> None:
        """Kills the server at once, as a crash would; `start()` then recovers."""
        if self._process and self.running:
            self._process.kill()
            self._process.wait(120)

    def restart(self, **options: object) -> None:
        """Stops and starts again on the same port, with `options` changed; an option of None goes back to its default."""
        self.stop()
        self._options |= options
        self.start()

    def remove(self) -> None:
        """Stops the server at once and deletes everything it wrote."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ use

    def connect(self, database: str | None = None, **parameters: Any) -> pymysql.Connection[Cursor]:
        """A new connection as root in autocommit, over TLS with the server verified; the caller closes it.

        Args:
            database: the connection's default database.
            **parameters: of `pymysql.connect`, in place of the usual ones, for example `ssl_disabled=True`.
        """
        usual: dict[str, Any] = {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password, "charset": "utf8mb4",
            "autocommit": True, "connect_timeout": 10, "ssl_ca": str(self.certificate.authority),
            "ssl_verify_cert": True, "ssl_verify_identity": True,
        }  # fmt: skip
        return pymysql.connect(database=database, **{**usual, **parameters})

    def execute(self, statement: str, *values: object, database: str | None = None) -> int:
        """Runs a statement as root on a connection of its own, in autocommit; returns how many rows it changed."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            return int(cursor.execute(statement, values or None))

    def query(self, statement: str, *values: object, database: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement, run as root on a connection of its own."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def database(self, prefix: str = "shop") -> Iterator[MysqlDatabase]:
        """A fresh database for one test; afterwards the sessions that use it are ended and it is dropped."""
        name = f"{prefix}_{uuid.uuid4().hex[:10]}"
        self.execute(f"CREATE DATABASE `{name}`")
        try:
            yield MysqlDatabase(self, name)
        finally:
            if not self.running:
                self.start()
            self._drop(name)

    def _drop(self, database: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [database])
            for (session,) in cursor.fetchall():
                try:
                    cursor.execute(f"KILL {session}")
                except pymysql.err.MySQLError as error:  # it may have ended by itself
                    if error.args[0] != _NO_SUCH_THREAD:
                        raise
            cursor.execute("SET SESSION lock_wait_timeout = 20")  # else a forgotten transaction would wait for a year
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")


class MysqlDatabase:
    """One database of a server, made for one test."""

    def __init__(self, server: MysqlServer, name: str) -> None:
        """Names an existing database."""
        self.server, self.name = server, name
        self.host, self.port, self.user, self.password = server.host, server.port, server.user, server.password
        self.is_mariadb = server.is_mariadb

    def connect(self, **parameters: Any) -> pymysql.Connection[Cursor]:
        """A new connection as root in autocommit with this database as default; the caller closes it."""
        return self.server.connect(self.name, **parameters)

    def execute(self, statement: str, *values: object) -> int:
        """Runs a statement in this database on a connection of its own; returns how many rows it changed."""
        return self.server.execute(statement, *values, database=self.name)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement run in this database on a connection of its own."""
        return self.server.query(statement, *values, database=self.name)


# ------------------------------------------------------------ shared with MariaDB


def root_statements() -> list[str]:
    """Statements, one a line, that give root the tests' password and let it in from any address."""
    return [
        f"ALTER USER '{ROOT}'@'localhost' IDENTIFIED BY '{PASSWORD}';",
        f"CREATE USER '{ROOT}'@'%' IDENTIFIED BY '{PASSWORD}';",
        f"GRANT ALL ON *.* TO '{ROOT}'@'%' WITH GRANT OPTION;",
    ]


def option_arguments(options: Mapping[str, object]) -> list[str]:
    """Options as arguments of a server program; None leaves one out."""
    arguments = []
    for name, value in options.items():
        dashed = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{dashed}" if value else f"--skip-{dashed}")
        elif value is not None:
            arguments.append(f"--{dashed}={value}")
    return arguments


def as_root() -> list[str]:
    """The argument without which a server started by root refuses to run; loopback and a password protect it."""
    return ["--user=root"] if os.geteuid() == 0 else []


def own_tmpdir(data: Path) -> str:
    """The argument for a folder for temporary tables beside the data: MariaDB deletes at its start what it finds there."""
    folder = data.with_name(f"{data.name}-tmp")
    folder.mkdir(exist_ok=True)
    return f"--tmpdir={folder}"


def run_once(found: Programs, data: Path, *arguments: str, statements: str = "") -> None:
    """Runs a server program that makes a data folder and ends; `statements` are its standard input.

    Raises:
        ServerError: it failed; with what it said.
    """
    done = subprocess.run(
        [
            *(*found.command, *as_root(), f"--datadir={data}", own_tmpdir(data)),
            *("--innodb-flush-method=nosync", *arguments),
        ],
        input=statements,
        env=dict(os.environ, **found.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "[ERROR]" in done.stderr:
        raise ServerError(f"{found.release.name} made no data folder, ended with {done.returncode}:\n{done.stderr}")


def copy_folder(source: Path, target: Path) -> None:
    """Copies a data folder without writing the empty stretches of its files, which are most of it."""
    subprocess.run(["cp", "--recursive", "--sparse=always", "--reflink=auto", source, target], check=True)
