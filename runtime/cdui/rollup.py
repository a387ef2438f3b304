"""Whose state a node's state is: its own, or that of the block it came out of."""

from __future__ import annotations

import threading
from typing import Any, Mapping, Sequence

from cdui.reporter import Reporter


class Rollup:
    """Reports nodes, and the inner nodes of presets and subgraphs under the id
    of the outermost block: running once, its end once all of them have ended,
    an error or an interruption at once."""

    def __init__(self, specs: Sequence[Mapping[str, Any]], reporter: Reporter) -> None:
        self._reporter = reporter
        # Held while a block is reported, so that nothing of it overtakes its "running".
        self._lock = threading.Lock()
        self._container = {s["id"]: s.get("container") for s in specs}
        self._left: dict[str, int] = {}
        for container in self._container.values():
            if container:
                self._left[container] = self._left.get(container, 0) + 1
        self._seen: dict[str, set[str]] = {c: set() for c in self._left}
        self._closed: set[str] = set()

    def name(self, node_id: str) -> str:
        """The id that a node reports under."""
        return self._container[node_id] or node_id

    def began(self, node_id: str) -> None:
        """Reports that a node runs."""
        container = self._container[node_id]
        if not container:
            self._reporter.node_status(node_id, "running")
            return
        with self._lock:
            if "running" not in self._seen[container]:
                self._seen[container].add("running")
                self._reporter.node_status(container, "running")
            self._reporter.inner_status(container, node_id, "running")

    def ended(self, node_id: str, status: str, **words: Any) -> None:
        """Reports a node's last status; ``words`` are its error, error_type and
        outputs. A block shows the outputs of the inner node that ended last."""
        container = self._container[node_id]
        if not container:
            self._reporter.node_status(node_id, status, **words)
            return
        with self._lock:
            self._reporter.inner_status(container, node_id, status, **words)
            self._left[container] -= 1
            seen = self._seen[container]
            seen.add(status)
            at_once = status in ("error", "interrupted")
            if container in self._closed or not (at_once or self._left[container] == 0):
                return
            self._closed.add(container)
            if not at_once:
                status = "completed" if "completed" in seen else "skipped"
            self._reporter.node_status(container, status, **words)
