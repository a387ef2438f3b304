"""Executes a prepared graph: levels, parallel nodes, retries, stops, seeds.

The control plane has expanded, checked and levelled the graph (docs/graphs.md,
"prepared form"); here it is only carried out. One Engine executes one graph
once. It knows nothing of pipes: what it tells goes to a Reporter, and whether
it should stop it asks a callable.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Mapping, NamedTuple

from cdui import devices
from cdui.node import Context, Node, call, derive_seed, fill_params
from cdui.reporter import Reporter
from cdui.summary import summarize

RETRY_WAIT_S = 0.5
NOT_A_SERIES = {"event", "step", "epoch", "total_epochs", "start_epoch", "batch", "total_batches"}


class Settings(NamedTuple):
    """How a graph is executed; the names are those of the run's options."""

    run_id: str = ""
    device: str = "cpu"
    seed: int | None = None
    deterministic: bool = False
    record_outputs: bool = False
    verbose: bool = False
    backward_mode: bool = False
    weights_persistent: bool = False
    graph_id: str = ""
    error_mode: str = "fail_fast"
    max_retries: int = 0
    max_parallel: int = 4
    data_root: str = "."
    search_dirs: tuple[str, ...] = ()
    api_inputs: Mapping[str, Any] | None = None


class Outcome(NamedTuple):
    """How an execution ended. ``captured`` maps (node id, port) to values."""

    status: str
    error: str = ""
    error_type: str = ""
    end_class: str = ""
    captured: dict[tuple[str, str], Any] = {}
    api_outputs: dict[str, Any] = {}


class NodeFailed(Exception):
    """A node's error: ``message`` is what happened, str() also says where."""

    def __init__(self, node_id: str, kind: str, message: str, error_type: str, out_of_memory: bool = False) -> None:
        super().__init__(f'node "{node_id}" ({kind}): {message}')
        self.message, self.error_type, self.out_of_memory = message, error_type, out_of_memory


class NodeOOMError(RuntimeError):
    """A node ran out of memory; the text holds hints and the allocator's numbers."""


class Engine:
    """Executes ``prepared`` with the node classes in ``nodes``."""

    def __init__(
        self,
        prepared: Mapping[str, Any],
        nodes: Mapping[str, type[Node]],
        settings: Settings,
        reporter: Reporter,
        should_stop: Callable[[], bool],
    ) -> None:
        self.specs = {n["id"]: n for n in prepared["nodes"]}
        self.levels = prepared["levels"]
        self.presets = prepared.get("presets") or {}
        self.sources: dict[str, list[tuple[str, str, str]]] = {i: [] for i in self.specs}
        self.consumers: dict[str, int] = dict.fromkeys(self.specs, 0)
        for e in prepared["edges"]:
            self.sources[e["target"]].append((e["targetHandle"], e["source"], e["sourceHandle"]))
            self.consumers[e["source"]] += 1
        self.nodes, self.settings = nodes, settings
        self.reporter, self.should_stop = reporter, should_stop
        self.results: dict[str, dict[str, Any]] = {}
        self.broken: set[str] = set()
        self.captured: dict[tuple[str, str], Any] = {}
        self.api_outputs: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._rollup = Rollup(prepared["nodes"], reporter)
        self._counters: dict[tuple[str, str], int] = {}
        self._explicit: set[str] = set()

    def execute(self) -> Outcome:
        """Runs all levels. Node errors end up in the outcome, not in the caller."""
        if self.settings.deterministic:
            make_deterministic()
        self.device = devices.resolve(self.settings.device, self.reporter.warn)
        workers = 1 if self.settings.seed is not None else max(1, self.settings.max_parallel)
        with ThreadPoolExecutor(workers, thread_name_prefix="cdui-node") as pool:
            for level in self.levels:
                if self.should_stop():
                    return self._outcome("cancelled")
                failure = self._run_level(level, pool)
                if failure is not None:
                    end_class = "out_of_memory" if failure.out_of_memory else "user_code"
                    return self._outcome("failed", str(failure), failure.error_type, end_class)
        return self._outcome("cancelled" if self.should_stop() else "succeeded")

    def _outcome(self, status: str, error: str = "", error_type: str = "", end_class: str = "") -> Outcome:
        return Outcome(status, error, error_type, end_class, self.captured, self.api_outputs)

    def _run_level(self, level: list[str], pool: ThreadPoolExecutor) -> NodeFailed | None:
        """Runs the nodes of a level together. In fail_fast mode the first error
        keeps those that have not begun from beginning."""
        pending: set[Future[None]] = {pool.submit(self._run_node, i) for i in level}
        failure: NodeFailed | None = None
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    continue
                if not isinstance(error, NodeFailed):
                    raise error
                if failure is None and self.settings.error_mode == "fail_fast":
                    failure = error
                    for other in pending:
                        other.cancel()
        return failure

    def _run_node(self, node_id: str) -> None:
        if self.should_stop():
            return
        if any(source in self.broken for _, source, _ in self.sources[node_id]):
            self.broken.add(node_id)
            self._rollup.ended(node_id, "skipped")
            return
        self._rollup.began(node_id)
        attempt = 0
        while True:
            try:
                result = self._execute_node(node_id)
                break
            except NodeFailed as failure:
                retry = self.settings.error_mode == "retry" and not failure.out_of_memory
                if retry and attempt < self.settings.max_retries and not self.should_stop():
                    attempt += 1
                    time.sleep(RETRY_WAIT_S * attempt)
                    continue
                self.broken.add(node_id)
                self._rollup.ended(node_id, "error", error=failure.message, error_type=failure.error_type)
                raise
        self._publish(node_id, result)

    def _execute_node(self, node_id: str) -> dict[str, Any]:
        spec = self.specs[node_id]
        kind = self.nodes[spec["type"]]
        params = fill_params(kind, spec["params"])
        device = self.device
        if isinstance(params.get("device"), str) and params["device"] not in ("", "auto"):
            # The node resolves it too, and warns; here it only says where inputs go.
            device = devices.resolve(params["device"], lambda *_, **__: None)
        inputs = self._gather(node_id)
        if kind.align_inputs:
            inputs = {name: devices.move(value, device) for name, value in inputs.items()}
        context = NodeContext(self, node_id, device)
        if self.settings.seed is not None:
            seed_everything(derive_seed(self.settings.seed, node_id))
        try:
            return call(kind(), inputs, params, context.progress, context)
        except Exception as error:
            raise self._explain(node_id, error, device) from error

    def _explain(self, node_id: str, error: Exception, device: str) -> NodeFailed:
        from cdui.failure import headline, out_of_memory

        oom = out_of_memory(error)
        if oom:
            devices.release_cache()
            error = NodeOOMError(out_of_memory_text(error, device))
        if self.settings.verbose:
            import traceback

            traceback.print_exception(type(error), error, error.__traceback__)
        return NodeFailed(node_id, self.specs[node_id]["type"], headline(error), type(error).__name__, oom)

    def _gather(self, node_id: str) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for handle, source, port in self.sources[node_id]:
            outputs = self.results[source]
            if port not in outputs:
                message = f'input "{handle}": node "{source}" gave no output "{port}"'
                raise NodeFailed(node_id, self.specs[node_id]["type"], message, "MissingOutput")
            inputs[handle] = outputs[port]
        return inputs

    def _publish(self, node_id: str, result: Mapping[str, Any]) -> None:
        spec = self.specs[node_id]
        ports = {k: v for k, v in result.items() if not (k.startswith("__") and k.endswith("__"))}
        with self._lock:
            self.results[node_id] = ports
            for _, source, _ in self.sources[node_id]:
                self.consumers[source] -= 1
                if self.consumers[source] == 0:
                    self.results[source] = {}  # nobody asks for these any more
        if self.settings.record_outputs:
            self._capture(node_id, ports, result.get("__steps__"))
        if spec["type"] == "GraphOutput":
            self.api_outputs[str(spec["params"].get("name", "output"))] = ports.get("value")
        status = "interrupted" if result.get("__interrupted__") else "completed"
        self._rollup.ended(node_id, status, outputs=self._shown(node_id, ports, result.get("__log__")))

    def _capture(self, node_id: str, ports: Mapping[str, Any], steps: Any) -> None:
        with self._lock:
            for port, value in ports.items():
                self.captured[node_id, port] = value
            for i, step in enumerate(steps or []):
                for name, value in dict(step).items():
                    self.captured[node_id, f"__step__{i}__{name}"] = value

    def _shown(self, node_id: str, ports: Mapping[str, Any], log: Any) -> list[dict[str, Any]]:
        """The output entries of a node's last event."""
        kind = self.nodes[self.specs[node_id]["type"]]
        entries: list[dict[str, Any]] = []
        if log:
            entries.append({"output_kind": "text", "text": str(log)})
        media = {p.name: p.media for p in kind.outputs(self.specs[node_id]["params"]) if p.media}
        for port, form in media.items():
            value = ports.get(port)
            if form == "image" and isinstance(value, str):
                value = {"format": "png", "encoding": "base64", "data": value}
            if isinstance(value, dict) and value:
                entries.append({"output_kind": form, form: value, "port": port})
        models = self.settings.data_root + "/models"
        summary = {port: summarize(value, models) for port, value in ports.items() if port not in media}
        if summary:
            entries.append({"output_kind": "tensor_summary", "tensor_summary": summary})
        return entries

    # What NodeContext passes on.

    def infer_metrics(self, node_id: str, payload: Mapping[str, Any]) -> None:
        """Numeric top-level values of a progress payload become series, unless
        it is a batch's or the node logs metrics itself."""
        if payload.get("event") == "batch" or node_id in self._explicit:
            return
        for name, value in payload.items():
            if name in NOT_A_SERIES or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            step = payload.get("step", payload.get("epoch"))
            if not isinstance(step, int) or isinstance(step, bool):
                step = self._counters.get((node_id, name), 0)
                self._counters[node_id, name] = step + 1
            self.reporter.metric(self._rollup.name(node_id), name, value, step)

    def log_metric(self, node_id: str, name: str, value: Any, step: int | None) -> None:
        self._explicit.add(node_id)
        if step is None:
            step = self._counters.get((node_id, name), 0)
            self._counters[node_id, name] = step + 1
        self.reporter.metric(self._rollup.name(node_id), name, value, int(step))

    def run_preset(self, name: str, inputs: Mapping[str, Any], node_id: str, device: str) -> dict[str, Any]:
        """Applies a prepared preset to inputs by exposed port and gives its
        exposed outputs. Its nodes report nothing of their own."""
        preset = self.presets[name]
        values: dict[str, dict[str, Any]] = {}
        specs = {n["id"]: n for n in preset["nodes"]}
        given: dict[str, dict[str, Any]] = {i: {} for i in specs}
        for port in preset["inputs"]:
            if port["name"] in inputs:
                given[port["node"]][port["port"]] = inputs[port["name"]]
        for level in preset["levels"]:
            for inner in level:
                if self.should_stop():
                    return {}
                for e in preset["edges"]:
                    if e["target"] == inner:
                        given[inner][e["targetHandle"]] = values[e["source"]][e["sourceHandle"]]
                kind = self.nodes[specs[inner]["type"]]
                if self.settings.seed is not None:
                    seed_everything(derive_seed(self.settings.seed, f"{node_id}/{inner}"))
                params = fill_params(kind, specs[inner]["params"])
                values[inner] = call(kind(), given[inner], params, lambda _: None, NodeContext(self, node_id, device))
        return {p["name"]: values[p["node"]].get(p["port"]) for p in preset["outputs"]}


class NodeContext(Context):
    """The context of one node in an engine."""

    def __init__(self, engine: Engine, node_id: str, device: str) -> None:
        s = engine.settings
        super().__init__(
            run_id=s.run_id, node_id=node_id, device=device, seed=s.seed, deterministic=s.deterministic,
            verbose=s.verbose, backward_mode=s.backward_mode, weights_persistent=s.weights_persistent,
            graph_id=s.graph_id, data_root=s.data_root, search_dirs=s.search_dirs, presets=engine.presets,
        )
        self.api_inputs = s.api_inputs
        self._engine = engine
        self._name = engine._rollup.name(node_id)

    def should_stop(self) -> bool:
        return self._engine.should_stop()

    def log_metric(self, name: str, value: float, step: int | None = None) -> None:
        self._engine.log_metric(self.node_id, name, value, step)

    def log_artifact(self, kind: str, path: str, meta: Mapping[str, Any] | None = None) -> None:
        self._engine.reporter.artifact(self._name, kind, path, meta or {})

    def warn(self, kind: str, **detail: Any) -> None:
        self._engine.reporter.warn(kind, self._name, **detail)

    def progress(self, payload: Mapping[str, Any]) -> None:
        """What a node's progress_callback is."""
        self._engine.reporter.progress(self._name, payload)
        self._engine.infer_metrics(self.node_id, payload)

    def run_preset(self, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._engine.run_preset(name, inputs, self.node_id, self.device)


class Rollup:
    """Reports nodes, and the inner nodes of presets and blocks under the id of
    the outermost block: running once, its end once all of them have ended, an
    error at once."""

    def __init__(self, specs: list[Mapping[str, Any]], reporter: Reporter) -> None:
        self._reporter = reporter
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
        container = self._container[node_id]
        if container is None:
            self._reporter.node_status(node_id, "running")
            return
        with self._lock:
            first = not self._seen[container]
            self._seen[container].add("running")
        if first:
            self._reporter.node_status(container, "running")
        self._reporter.inner_status(container, node_id, "running")

    def ended(self, node_id: str, status: str, *, error: str = "", error_type: str = "",
              outputs: list[dict[str, Any]] | None = None) -> None:
        container = self._container[node_id]
        if container is None:
            self._reporter.node_status(node_id, status, error=error, error_type=error_type, outputs=outputs)
            return
        self._reporter.inner_status(container, node_id, status)
        with self._lock:
            self._left[container] -= 1
            self._seen[container].add(status)
            seen, over = self._seen[container], self._left[container] == 0
            at_once = status in ("error", "interrupted")
            if container in self._closed or not (over or at_once):
                return
            self._closed.add(container)
        if at_once:
            self._reporter.node_status(container, status, error=error, error_type=error_type)
        elif "completed" in seen:
            self._reporter.node_status(container, "completed", outputs=outputs)
        else:
            self._reporter.node_status(container, "skipped")


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy and torch; torch is imported for it, since the node
    that follows may import it and draw."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def make_deterministic() -> None:
    """Deterministic kernels where there are any, warnings where there are none."""
    import os

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def out_of_memory_text(error: Exception, device: str) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    numbers = devices.allocator(device)
    return (
        f"out of memory on {device}{numbers}: {text[:400]}. Try a smaller batch_size, precision bf16, "
        f"a larger accumulate_steps with smaller batches, or a smaller model"
    )
