"""Passes rows of one transaction to readers in other processes: a small server beside the driver's connection.

Only the session that began a snapshot can read it; MySQL cannot lend it to another. So the driver runs the SELECT for each
reader in turn and passes the packets on as they came; the reader makes columns of them. A reader proves that it knows the
key of this relay, which travels with the pickled chunk reader, and the relay proves it back (HMAC-SHA256 over a challenge).
The rows themselves travel as those of Spark's own shuffles do by default, in clear.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import structlog

from replicator_sdk import errors
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_source_mysql.connect.packets import Packets

log = structlog.get_logger(__name__)

_CHALLENGE = 32
_GREETING_SECONDS = 10.0
_STALL_SECONDS = 300.0
_FRAME = struct.Struct("<cQQ")
_ROWS, _END, _FAILED = b"R", b".", b"E"

Rows = Callable[[], Iterator[Packets]]
"""Runs the SELECT once; closing the iterator early has to leave the session usable."""


@dataclass(frozen=True, slots=True)
class RelayAddress:
    """Where a relay listens; picklable, its repr shows no key."""

    host: str
    port: int
    key: bytes = field(repr=False)


class SnapshotRelay:
    """Listens until closed; serves one reader at a time, the others wait. All methods may be called from any thread.

    Args:
        listen: The address to listen at.
        host: The address at which readers reach it.
        rows: Runs the SELECT.
    """

    def __init__(self, listen: str, host: str, rows: Rows) -> None:
        self._rows = rows
        self._turn = threading.Lock()
        self._clients: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._guard = threading.Lock()
        family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        self._listener = socket.create_server((listen, 0), family=family, backlog=64)
        self.address = RelayAddress(host, self._listener.getsockname()[1], secrets.token_bytes(_CHALLENGE))
        self._acceptor = threading.Thread(target=self._accept, name="snapshot-relay", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                if self._closed:
                    client.close()
                    return
                self._clients.add(client)
                thread = threading.Thread(target=self._serve, args=(client,), name="snapshot-relay-reader", daemon=True)
                self._threads = [t for t in self._threads if t.is_alive()] + [thread]
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            client.settimeout(_GREETING_SECONDS)
            if _prove_to(client, self.address.key, is_relay=True):
                client.settimeout(_STALL_SECONDS)
                with self._turn:
                    self._pass_on(client)
        except OSError as err:
            log.info("snapshot.reader_disconnected", why=type(err).__name__)
        finally:
            with self._guard:
                self._clients.discard(client)
            client.close()

    def _pass_on(self, client: socket.socket) -> None:
        if self._closed:
            return
        try:
            with contextlib.closing(self._rows()) as rows:  # type: ignore[type-var]
                for packets in rows:
                    _send_rows(client, packets)
        except ReplicatorError as err:
            facts = [type(err).__name__, err.message, err.code, err.hint]
            _send(client, _FAILED, json.dumps(facts).encode())
        else:
            _send(client, _END, b"")

    def close(self) -> None:
        """Stop listening, cut the readers off and wait for the threads; may be called twice."""
        with self._guard:
            self._closed = True
            clients = list(self._clients)
        for one in [self._listener, *clients]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in [self._acceptor, *self._threads]:
            thread.join()


def relayed(address: RelayAddress, table: str) -> Iterator[Packets]:
    """The rows of a relay, in any process.

    Raises:
        ReplicatorError: What the relay met, or that it is gone.
    """
    try:
        with socket.create_connection((address.host, address.port), timeout=_GREETING_SECONDS) as relay:
            if not _prove_to(relay, address.key, is_relay=False):
                raise _gone(table, "it is another one")
            relay.settimeout(None)  # its turn may come late; a relay that ends closes the connection
            relay.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            yield from _received(relay, table)
    except OSError as err:
        raise _gone(table, type(err).__name__) from None


def _received(relay: socket.socket, table: str) -> Iterator[Packets]:
    while True:
        kind, count, size = _FRAME.unpack(_read(relay, _FRAME.size))
        if kind == _END:
            return
        if kind == _FAILED:
            name, message, code, hint = json.loads(_read(relay, size))
            raise getattr(errors, name, RetryableError)(message, code=code, hint=hint, table=table)
        places = np.frombuffer(_read(relay, 16 * count), np.int64)
        data = np.frombuffer(_read(relay, size), np.uint8)
        yield Packets(data, places[:count], places[count:])


def _send_rows(client: socket.socket, packets: Packets) -> None:
    first, last = int(packets.start[0]), int(packets.end[-1])
    places = np.concatenate([packets.start, packets.end]) - first
    client.sendall(_FRAME.pack(_ROWS, len(packets), last - first))
    client.sendall(places.tobytes())
    client.sendall(packets.data[first:last].data)


def _send(client: socket.socket, kind: bytes, content: bytes) -> None:
    client.sendall(_FRAME.pack(kind, 0, len(content)) + content)


def _read(relay: socket.socket, size: int) -> bytearray:
    content = bytearray(size)
    view, at = memoryview(content), 0
    while at < size:
        came = relay.recv_into(view[at:])
        if not came:
            raise ConnectionResetError
        at += came
    return content


def _prove_to(peer: socket.socket, key: bytes, *, is_relay: bool) -> bool:
    """Both sides send a challenge and answer the other's, each with a word of its own so that no answer can be sent back."""
    mine, theirs = (b"relay", b"reader") if is_relay else (b"reader", b"relay")
    challenge = secrets.token_bytes(_CHALLENGE)
    peer.sendall(challenge)
    asked = bytes(_read(peer, _CHALLENGE))
    if is_relay:
        # The reader shows first that it knows the key.
        is_known = hmac.compare_digest(_read(peer, _CHALLENGE), _answer(key, theirs, challenge))
        if is_known:
            peer.sendall(_answer(key, mine, asked))
        return is_known
    peer.sendall(_answer(key, mine, asked))
    return hmac.compare_digest(_read(peer, _CHALLENGE), _answer(key, theirs, challenge))


def _answer(key: bytes, word: bytes, challenge: bytes) -> bytes:
    return hmac.digest(key, word + challenge, "sha256")


def _gone(table: str, why: str) -> RetryableError:
    return RetryableError(
        f"the snapshot of {table} can no longer be read from the driver: {why}",
        code="RPL-3823",
        table=table,
        hint="the snapshot is taken again; executors must reach the driver's host (spark.driver.host)",
    )
