"""What a graph run tells of itself: lines to the shim, in order.

Progress may come faster than anybody reads it: it waits in a bounded outbox
from which the oldest is dropped, and is sent by a thread of its own. Everything
else is sent at once and never dropped; what a node's outbox holds goes before
its last word.
"""

from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Deque, Mapping

from cdui import lines
from cdui.summary import jsonable

MAX_WAITING = 1024


class Reporter:
    """Builds lines and hands them to ``send``. Owns one thread; close() ends it."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._outbox: Deque[bytes] = collections.deque()
        self._wake = threading.Condition(self._lock)
        self._sending = threading.Lock()
        self._closed = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._pump, name="cdui-progress", daemon=True)
        self._thread.start()

    def node_status(self, node_id: str, status: str, *, error: str = "", error_type: str = "",
                    outputs: list[dict[str, Any]] | None = None) -> None:
        """A node_status event. Progress that waits goes first."""
        payload: dict[str, Any] = {"node_id": node_id, "status": status}
        if error:
            payload["error"] = error
        if error_type:
            payload["error_type"] = error_type
        if outputs:
            payload["outputs"] = outputs
        self.flush()
        self._line(type="event", event="node_status", payload=payload)

    def inner_status(self, container: str, inner: str, status: str) -> None:
        self._line(type="event", event="inner_node_status",
                   payload={"node_id": container, "inner_node_id": inner, "status": status})

    def progress(self, node_id: str, payload: Mapping[str, Any]) -> None:
        """Queues a progress event and returns at once."""
        entry = {"output_kind": "progress", "progress": jsonable(payload)}
        line = lines.line(type="event", event="node_status",
                          payload={"node_id": node_id, "status": "progress", "outputs": [entry]})
        with self._wake:
            if len(self._outbox) >= MAX_WAITING:
                self._outbox.popleft()
                self.dropped += 1
            self._outbox.append(line)
            self._wake.notify()

    def metric(self, node_id: str, name: str, value: Any, step: int) -> None:
        text = lines.point(name, lines.number(value, f"metric {name!r}"), step)
        with_node = text[:-1] + ',"node_id":' + lines.quoted(node_id) + "}"
        self._send(('{"type":"metrics","points":[%s]}' % with_node).encode("ascii"))

    def artifact(self, node_id: str, kind: str, path: str, meta: Mapping[str, Any]) -> None:
        self._line(type="artifact", kind=kind, path=path, meta=jsonable(meta), node_id=node_id)

    def warn(self, kind: str, node_id: str = "", **detail: Any) -> None:
        fields: dict[str, Any] = {"type": "warning", "kind": kind, "meta": jsonable(detail)}
        if node_id:
            fields["node_id"] = node_id
        self._line(**fields)

    def facts(self, facts: Mapping[str, Any]) -> None:
        self._line(type="facts", facts=facts)

    def finished(self, **fields: Any) -> None:
        """The last line. Progress that waits goes first, and what was dropped is told."""
        self.flush()
        if self.dropped:
            self.warn("dropped_signals", count=self.dropped)
        self._line(type="finished", **fields)

    def flush(self) -> None:
        """Sends what waits. The caller sends it, so that it is out on return."""
        with self._sending:
            while True:
                with self._lock:
                    if not self._outbox:
                        return
                    line = self._outbox.popleft()
                self._send(line)

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _pump(self) -> None:
        while True:
            with self._wake:
                while not self._outbox and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
            self.flush()

    def _line(self, **fields: Any) -> None:
        self._send(lines.line(**fields))
