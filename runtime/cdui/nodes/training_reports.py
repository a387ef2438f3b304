"""What a training loop tells while it runs: progress, series, checkpoints."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from cdui.nodes import checkpoints, files

#: Seconds between two batch events.
BATCH_EVERY_S = 0.5


class Reports:
    """Sends progress and series of one node.

    Batch events are sent at most every BATCH_EVERY_S, the first always; only
    then is the loss fetched from the device.
    """

    def __init__(self, progress: Callable[[dict[str, Any]], None], context: Any, writer: Any = None,
                 now: Callable[[], float] = time.monotonic) -> None:
        self.context = context
        self._progress, self._writer, self._now = progress, writer, now
        self._last_batch: float | None = None

    def config(self, config: Mapping[str, Any]) -> None:
        """Says once what will be trained and how."""
        self._progress({"event": "config", "config": dict(config)})

    def batch(self, epoch: int, batch: int, total: int | None, loss: Any, phase: str) -> None:
        """Says where in an epoch the loop is."""
        now = self._now()
        if self._last_batch is not None and now - self._last_batch < BATCH_EVERY_S:
            return
        self._last_batch = now
        self._progress({
            "event": "batch", "epoch": epoch, "batch": batch, "total_batches": total, "loss": float(loss), "phase": phase,
        })

    def epoch(self, payload: Mapping[str, Any], series: Mapping[str, float]) -> None:
        """Says how an epoch went; the series get a point at its number."""
        for name, value in series.items():
            self.series(name, value, payload["epoch"])
        self._progress({"event": "epoch", **payload})

    def series(self, name: str, value: float, step: int) -> None:
        """Adds a point to a series."""
        self.context.log_metric(name, value, step)
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Ends what was begun."""
        if self._writer is not None:
            self._writer.close()


class Keeper:
    """Writes a loop's checkpoints below models/ and registers them."""

    def __init__(self, context: Any, content: Callable[[], dict[str, Any]]) -> None:
        self._context, self._content = context, content

    def periodic(self, label: str, **meta: Any) -> str | None:
        """Writes models/periodic/<run>-<node>-<label>.pt."""
        return self._write("periodic", label, meta)

    def interrupted(self, **meta: Any) -> str | None:
        """Writes models/interrupted/<run>-<node>.pt, from which a later run can
        go on."""
        return self._write("interrupted", "", meta)

    def _write(self, reason: str, label: str, meta: dict[str, Any]) -> str | None:
        context = self._context
        if not context.can_record_artifacts():
            return None
        parts = [part for part in (context.run_id, context.node_id, label) if part]
        name = "-".join(map(files.file_name, parts)) or "checkpoint"
        try:
            path = files.target(f"{reason}/{name}.pt", context, "models")
            checkpoints.save(self._content(), path)
        except (OSError, RuntimeError) as error:
            # Training goes on, and a stopped run keeps its results: a full disk must not take them.
            context.warn("checkpoint_failed", reason=reason, error=str(error))
            return None
        context.log_artifact("checkpoint", path, {"reason": reason, **meta, "node_id": context.node_id})
        return path
