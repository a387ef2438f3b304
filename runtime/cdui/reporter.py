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
#: What the shim takes in one line; internal/childproto has the same number.
MAX_LINE = 8 << 20


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
        words = {"error": error, "error_type": error_type, "outputs": outputs}
        self.flush()
        self._event("node_status", {"node_id": node_id, "status": status, **{k: v for k, v in words.items() if v}})

    def inner_status(self, container: str, inner: str, status: str, *, error: str = "", error_type: str = "",
                     outputs: list[dict[str, Any]] | None = None) -> None:
        """The state of a node inside the block ``container``."""
        words = {"error": error, "error_type": error_type, "outputs": outputs}
        payload = {"node_id": container, "inner_node_id": inner, "status": status}
        self.flush()
        self._event("inner_node_status", {**payload, **{k: v for k, v in words.items() if v}})

    def progress(self, node_id: str, payload: Mapping[str, Any]) -> None:
        """Queues a progress event and returns at once."""
        entry = {"output_kind": "progress", "progress": jsonable(payload)}
        line = _event("node_status", {"node_id": node_id, "status": "progress", "outputs": [entry]})
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
        self._line(type="finished", **{k: v for k, v in fields.items() if v})

    def flush(self) -> None:
        """Sends what waits now. The caller sends it, so that it is out on return."""
        with self._sending:
            # What is queued meanwhile is not waited for: another node may go on for ever.
            for _ in range(len(self._outbox)):
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

    def _event(self, event: str, payload: Mapping[str, Any]) -> None:
        self._send(_event(event, payload))

    def _line(self, **fields: Any) -> None:
        self._send(lines.line(**fields))


def _event(event: str, payload: Mapping[str, Any]) -> bytes:
    """The line of an event. What would be longer than the shim takes loses its
    large outputs here, by the shim's own rule, for else all of it were lost."""
    line = lines.line(type="event", event=event, payload=payload)
    if len(line) <= MAX_LINE:
        return line
    outputs = payload.get("outputs") or []
    sizes = [len(lines.line(**entry)) for entry in outputs]
    kept = [
        entry if size <= MAX_LINE // len(outputs) - 1024 else _elided(entry, size)
        for entry, size in zip(outputs, sizes)
    ]
    return lines.line(type="event", event=event, payload={**payload, "outputs": kept})


def _elided(entry: Mapping[str, Any], size: int) -> dict[str, Any]:
    gone = {"output_kind": entry["output_kind"], "elided": True, "bytes": size, "cap_bytes": MAX_LINE}
    return {**gone, "port": entry["port"]} if "port" in entry else gone
