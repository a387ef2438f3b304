"""The connection between a process of a run and the shim that owns the run.

The process that the shim started has two pipes; child.py took them over. Any
other process of the run, also one forked from that process, uses the report
socket. Whatever happens to the connection, nothing here raises into user code:
what can't be sent is dropped.
"""
from __future__ import annotations

import collections
import json
import os
import select
import sys
import threading
import time
from typing import Any, Deque, NamedTuple, Optional, Tuple

from cdui import lines

REPORT_SOCKET = "CDUI_REPORT"
# What fits into a socket address on every system.
_MAX_SOCKET_PATH = 103
# The shim writes the input as its first line; one that doesn't come has none.
_INPUT_WAIT_S = 5.0


class Link(NamedTuple):
    """Open descriptors, and which pipes or sockets they were when they were taken."""

    up: int
    down: int
    up_id: Tuple[int, int]
    down_id: Tuple[int, int]


def identity(fd: int) -> Tuple[int, int]:
    st = os.fstat(fd)
    return st.st_dev, st.st_ino


class Channel:
    """One process's side. Safe for threads, forks and signal handlers."""

    def __init__(self) -> None:
        self._cancelled = False
        self._input: Any = None
        self._start_over()
        os.register_at_fork(after_in_child=self._forked)

    def _start_over(self) -> None:
        self._pid = os.getpid()
        # Reentrant: a signal handler may log while its thread is in here.
        self._lock = threading.RLock()
        self._pending: Deque[bytes] = collections.deque()
        self._writing = False
        self._torn = False
        self._read_lock = threading.RLock()
        self._reading = False
        self._received = b""
        self._link: Optional[Link] = None
        self._opened = False
        self._broken = False

    def _forked(self) -> None:
        link = self._link
        self._start_over()
        if link is not None:
            _close(link)

    def _own(self) -> None:
        """Catches a fork that ran no hooks."""
        if self._pid != os.getpid():
            self._forked()

    # -- up --

    def open(self) -> None:
        """Connects and says hello, once; outside a run it does nothing."""
        self._own()
        with self._lock:
            if self._opened:
                return
            self._opened = True
            try:
                self._link = _from_child()
                if self._link is not None:
                    # A spare has read its assignment, and maybe more, before.
                    self._take_all(getattr(sys.modules["cdui.child"], "received", b""))
                else:
                    self._link = _from_socket()
            except OSError:
                self._link = None
            if self._link is not None:
                self._pending.appendleft(lines.hello())
        self._drain()

    def send(self, line: bytes) -> None:
        """Writes a line whole before it returns.

        A signal handler that sends while its own thread is writing only queues
        its line; the interrupted call writes it after its own.
        """
        self.open()
        if self._link is None:
            return
        self._pending.append(line)
        self._drain()

    def _drain(self) -> None:
        with self._lock:
            if self._writing:
                return
            self._writing = True
            try:
                while self._pending:
                    self._write(self._pending.popleft())
            finally:
                self._writing = False

    def _write(self, line: bytes) -> None:
        link = self._link
        if link is None or self._broken:
            return
        # A line that an exception cut short is ended here, so that it spoils no other.
        data = memoryview(b"\n" + line + b"\n" if self._torn else line + b"\n")
        self._torn = True
        try:
            if identity(link.up) != link.up_id:
                self._broken = True
                return
            while data:
                try:
                    data = data[os.write(link.up, data) :]
                except BlockingIOError:
                    _wait(link.up, select.POLLOUT, -1)
        except OSError:
            self._broken = True
            return
        self._torn = False

    # -- down --

    def cancelled(self) -> bool:
        """Whether the run was asked to stop; a look, not a wait."""
        if not self._cancelled:
            self.open()
            self._receive(0)
        return self._cancelled

    def input(self) -> Any:
        """What the assign line brought, waiting for it a little; None without one."""
        self.open()
        deadline = time.monotonic() + _INPUT_WAIT_S
        while self._input is None:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                break
        return self._input

    def _receive(self, wait_s: float) -> bool:
        """Takes in what the shim sent; False when nothing more will come or somebody else reads."""
        if self._link is None or self._broken:
            return False
        if not self._read_lock.acquire(blocking=wait_s > 0):
            return False
        try:
            if self._reading:
                return False
            self._reading = True
            try:
                return self._read(self._link, wait_s)
            except OSError:
                return False
            finally:
                self._reading = False
        finally:
            self._read_lock.release()

    def _read(self, link: Link, wait_s: float) -> bool:
        if identity(link.down) != link.down_id:
            return False
        while _wait(link.down, select.POLLIN, wait_s):
            wait_s = 0
            chunk = os.read(link.down, 1 << 16)
            if not chunk:
                return False
            self._take_all(chunk)
        return True

    def _take_all(self, chunk: bytes) -> None:
        *whole, self._received = (self._received + chunk).split(b"\n")
        for line in whole:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            kind = message.get("type")
        except (ValueError, AttributeError):
            return
        if kind == "cancel":
            self._cancelled = True
        elif kind == "assign":
            self._input = message.get("input") or {}


def _from_child() -> Optional[Link]:
    child = sys.modules.get("cdui.child")
    taken = getattr(child, "channel", None)
    if taken is None or taken[0] != os.getpid():
        return None
    return Link(*taken[1:])


def _from_socket() -> Optional[Link]:
    path = os.environ.get(REPORT_SOCKET)
    if not path:
        return None
    import socket

    conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
            conn.connect(path)
        else:
            folder, name = os.path.split(path)
            folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                conn.connect("/proc/self/fd/%d/%s" % (folder_fd, name))
            finally:
                os.close(folder_fd)
    except OSError:
        conn.close()
        raise
    conn.setblocking(True)
    fd = conn.detach()
    return Link(fd, fd, identity(fd), identity(fd))


def _close(link: Link) -> None:
    """In a forked process: its copies of the parent's descriptors, if they still are that."""
    for fd, was in {(link.up, link.up_id), (link.down, link.down_id)}:
        try:
            if identity(fd) == was:
                os.close(fd)
        except OSError:
            pass


def _wait(fd: int, event: int, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(-1 if wait_s < 0 else int(wait_s * 1000)))


channel = Channel()
