"""Executes a prepared graph: levels, parallel nodes, retries, stops, seeds.

The control plane has expanded, checked and levelled the graph (docs/graphs.md,
"Prepared form"); here it is only carried out. One Engine executes one graph
once. It knows nothing of pipes: what it tells goes to a Reporter, and whether
it should stop it asks a callable.
"""

from __future__ import annotations

import operator
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cdui import devices, failure
from cdui.node import Context, Node, call, derive_seed, fill_params
from cdui.reporter import Reporter
from cdui.rollup import Rollup
from cdui.seeding import make_deterministic, seed_everything
from cdui.summary import output_entries

RETRY_WAIT_S = 0.5
#: How soon a wait between two tries notices a stop.
POLL_S = 0.1
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
    search_dirs: Sequence[str] = ()
    api_inputs: Mapping[str, Any] | None = None


class Outcome(NamedTuple):
    """How an execution ended. ``captured`` maps (node id, port) to values."""

    status: str
    error: str = ""
    error_type: str = ""
    end_class: str = ""
    captured: Mapping[tuple[str, str], Any] = {}
    api_outputs: Mapping[str, Any] = {}


class NodeOOMError(RuntimeError):
    """A node ran out of memory; the text holds hints and the allocator's numbers."""


class Failure(NamedTuple):
    """A node's error, in words only: an exception would hold its tensors."""

    message: str
    error_type: str
    out_of_memory: bool


class Done(NamedTuple):
    """What a node gave: values by port, step records, and what is shown of it."""

    values: dict[str, Any]
    steps: Sequence[Mapping[str, Any]]
    interrupted: bool
    shown: list[dict[str, Any]]


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
        self.nodes, self.settings, self.reporter = nodes, settings, reporter
        self.presets = prepared.get("presets") or {}
        self.rollup = Rollup(prepared["nodes"], reporter)
        self.device = "cpu"
        self._specs = {n["id"]: n for n in prepared["nodes"]}
        self._levels = prepared["levels"]
        self._sources: dict[str, list[tuple[str, str, str]]] = {i: [] for i in self._specs}
        self._consumers: dict[str, int] = dict.fromkeys(self._specs, 0)
        for e in prepared["edges"]:
            self._sources[e["target"]].append((e["targetHandle"], e["source"], e["sourceHandle"]))
            self._consumers[e["source"]] += 1
        self._results: dict[str, dict[str, Any]] = {}
        self._broken: set[str] = set()
        self._captured: dict[tuple[str, str], Any] = {}
        self._api_outputs: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._asked_to_stop = should_stop
        self._failed: tuple[str, Failure] | None = None

    def execute(self) -> Outcome:
        """Runs all levels. Node errors end up in the outcome, not in the caller."""
        if self.settings.deterministic:
            make_deterministic()
        self.device = devices.resolve(self.settings.device, self.reporter.warn)
        devices.use(self.device)
        workers = 1 if self.settings.seed is not None else max(1, self.settings.max_parallel)
        # Of a card, too, each thread has a current one of its own.
        with ThreadPoolExecutor(workers, "cdui-node", devices.use, (self.device,)) as pool:
            for level in self._levels:
                if self.stopping():
                    break
                if workers == 1 or len(level) == 1:
                    for node_id in level:
                        self._run_node(node_id)
                else:
                    for future in wait([pool.submit(self._run_node, i) for i in level]).done:
                        future.result()
        if self._failed is not None:
            node_id, failed = self._failed
            text = f'node "{node_id}" ({self._specs[node_id]["type"]}): {failed.message}'
            return self._outcome("failed", text, failed.error_type, "out_of_memory" if failed.out_of_memory else "user_code")
        return self._outcome("cancelled" if self._asked_to_stop() else "succeeded")

    def stopping(self) -> bool:
        """Whether to begin nothing more: the run was stopped, or a node's error
        ends it."""
        return self._failed is not None or self._asked_to_stop()

    def _outcome(self, status: str, error: str = "", error_type: str = "", end_class: str = "") -> Outcome:
        return Outcome(status, error, error_type, end_class, self._captured, self._api_outputs)

    def _run_node(self, node_id: str) -> None:
        if self.stopping():
            return
        if any(source in self._broken for _, source, _ in self._sources[node_id]):
            self._broken.add(node_id)
            self._let_go_of_inputs(node_id)
            self.rollup.ended(node_id, "skipped")
            return
        self.rollup.began(node_id)
        done = self._attempt(node_id)
        retries = self.settings.max_retries if self.settings.error_mode == "retry" else 0
        for attempt in range(1, retries + 1):
            if isinstance(done, Done) or done.out_of_memory or not self._wait(RETRY_WAIT_S * attempt):
                break
            done = self._attempt(node_id)
        self._let_go_of_inputs(node_id)
        if isinstance(done, Failure):
            self._fail(node_id, done)
        else:
            self._publish(node_id, done)

    def _wait(self, seconds: float) -> bool:
        """Waits, and says whether the run goes on."""
        end = time.monotonic() + seconds
        while not self.stopping():
            left = end - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, POLL_S))
        return False

    def _attempt(self, node_id: str) -> Done | Failure:
        spec = self._specs[node_id]
        kind, device = self.nodes[spec["type"]], self.device
        try:
            params = fill_params(kind, spec["params"])
            device = self._device_of(params)
            context = NodeContext(self, node_id, device)
            result = self._call(kind, node_id, self._gather(node_id, kind, params), params, context)
            values = {k: v for k, v in result.items() if not (k.startswith("__") and k.endswith("__"))}
            shown = output_entries(kind.outputs(params), values, result.get("__log__"), context.models_dir)
            return Done(values, result.get("__steps__") or (), bool(result.get("__interrupted__")), shown)
        except BaseException as error:  # a node may do anything, even exit
            failed = self._explain(error, device)
        if failed.out_of_memory:
            # The error held the frames, and these the tensors.
            import gc

            gc.collect()
            devices.release_cache()
        return failed

    def _device_of(self, params: Mapping[str, Any]) -> str:
        wanted = params.get("device")
        if not isinstance(wanted, str) or not wanted:
            return self.device
        # The node resolves it too, and warns; here it says where inputs go.
        return devices.resolve(wanted, lambda *_, **__: None, auto=self.device)

    def _call(self, kind: type[Node], label: str, inputs: dict[str, Any], params: dict[str, Any],
              context: NodeContext) -> Mapping[str, Any]:
        """Executes a node under the random state that belongs to ``label``."""
        if kind.align_inputs:
            inputs = {name: devices.move(value, context.device) for name, value in inputs.items()}
        if self.settings.seed is not None:
            seed_everything(derive_seed(self.settings.seed, label))
        result = call(kind(), inputs, params, context.progress, context)
        if not isinstance(result, Mapping):
            raise TypeError(f"execute gave a {type(result).__name__}, not a dict of its outputs by port")
        return result

    def _explain(self, error: BaseException, device: str) -> Failure:
        if self.settings.verbose:
            import traceback

            traceback.print_exception(type(error), error, error.__traceback__)
        if not failure.out_of_memory(error):
            return Failure(failure.headline(error) + failure.mend(error), type(error).__name__, False)
        text = failure.one_line(failure.text_of(error))[:400] or type(error).__name__
        oom = NodeOOMError(
            f"out of memory on {device}{devices.allocator(device)}: {text}. Try a smaller batch_size, precision bf16, "
            f"accumulate_steps with smaller batches, or a smaller model{failure.mend(error)}"
        )
        return Failure(failure.headline(oom), type(oom).__name__, True)

    def _gather(self, node_id: str, kind: type[Node], params: Mapping[str, Any]) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for handle, source, port in self._sources[node_id]:
            values = self._results[source]
            if port in values:
                inputs[handle] = values[port]
            elif not any(p.name == handle and p.optional for p in kind.inputs(params)):
                raise LookupError(f'input "{handle}": node "{source}" gave no output "{port}"')
        return inputs

    def _let_go_of_inputs(self, node_id: str) -> None:
        with self._lock:
            for _, source, _ in self._sources[node_id]:
                self._consumers[source] -= 1
                if self._consumers[source] == 0:
                    self._results.pop(source, None)

    def _fail(self, node_id: str, failed: Failure) -> None:
        self._broken.add(node_id)
        with self._lock:
            # Before anybody can hear of it, so that no other node begins.
            if self._failed is None and self.settings.error_mode == "fail_fast":
                self._failed = node_id, failed
        self.rollup.ended(node_id, "error", error=failed.message, error_type=failed.error_type)

    def _publish(self, node_id: str, done: Done) -> None:
        spec = self._specs[node_id]
        with self._lock:
            if self._consumers[node_id]:
                self._results[node_id] = done.values
            if self.settings.record_outputs:
                for port, value in done.values.items():
                    self._captured[node_id, port] = value
                for i, step in enumerate(done.steps):
                    for name, value in step.items():
                        self._captured[node_id, f"__step__{i}__{name}"] = value
            if spec["type"] == "GraphOutput" and not spec.get("container"):
                name = fill_params(self.nodes[spec["type"]], spec["params"])["name"]
                self._api_outputs[str(name)] = done.values.get("value")
        self.rollup.ended(node_id, "interrupted" if done.interrupted else "completed", outputs=done.shown)

    def run_preset(self, name: str, inputs: Mapping[str, Any], context: NodeContext) -> dict[str, Any]:
        """Applies a prepared preset to inputs by exposed port and gives its
        exposed outputs; nothing once the run is stopped. Its nodes report
        nothing of their own."""
        preset = self.presets[name]
        specs = {n["id"]: n for n in preset["nodes"]}
        given: dict[str, dict[str, Any]] = {i: {} for i in specs}
        for port in preset["inputs"]:
            if port["name"] in inputs:
                given[port["node"]][port["port"]] = inputs[port["name"]]
        values: dict[str, Mapping[str, Any]] = {}
        for inner in (i for level in preset["levels"] for i in level):
            if self.stopping():
                return {}
            for e in preset["edges"]:
                if e["target"] == inner:
                    given[inner][e["targetHandle"]] = values[e["source"]][e["sourceHandle"]]
            kind = self.nodes[specs[inner]["type"]]
            params = fill_params(kind, specs[inner]["params"])
            quiet = NodeContext(self, context.node_id, self._device_of(params), quiet=True)
            values[inner] = self._call(kind, f"{context.node_id}/{inner}", given[inner], params, quiet)
        return {p["name"]: values[p["node"]].get(p["port"]) for p in preset["outputs"]}


class NodeContext(Context):
    """The context of one node in an engine; a quiet one reports no progress."""

    def __init__(self, engine: Engine, node_id: str, device: str, quiet: bool = False) -> None:
        s = engine.settings
        super().__init__(
            run_id=s.run_id, node_id=node_id, device=device, seed=s.seed, deterministic=s.deterministic,
            verbose=s.verbose, backward_mode=s.backward_mode, weights_persistent=s.weights_persistent,
            graph_id=s.graph_id, data_root=s.data_root, search_dirs=s.search_dirs, presets=engine.presets,
        )
        self.models_dir = s.data_root + "/models"
        self._engine, self._reporter, self._quiet = engine, engine.reporter, quiet
        self._name = engine.rollup.name(node_id)
        # A caller's values are for the graph itself, not for what a block consists of.
        self.api_inputs = s.api_inputs if self._name == node_id and not quiet else None
        self._logs_itself = False
        self._counts: dict[str, int] = {}

    def should_stop(self) -> bool:
        return self._engine.stopping()

    def log_metric(self, name: str, value: Any, step: int | None = None) -> None:
        self._logs_itself = True
        self._point(name, value, step)

    def log_artifact(self, kind: str, path: str, meta: Mapping[str, Any] | None = None) -> None:
        self._reporter.artifact(self._name, kind, path, meta or {})

    def warn(self, kind: str, **detail: Any) -> None:
        detail.pop("node_id", None)  # it is named once, as the log knows it
        self._reporter.warn(kind, self._name, **detail)

    def run_preset(self, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Applies an installed preset; see Engine.run_preset."""
        return self._engine.run_preset(name, inputs, self)

    def progress(self, payload: Mapping[str, Any]) -> None:
        """What a node's progress_callback is. Numbers in the payload become
        series, unless it is a batch's or the node logs metrics itself."""
        if self._quiet:
            return
        self._reporter.progress(self._name, payload)
        if payload.get("event") == "batch" or self._logs_itself:
            return
        step = next((s for s in map(_whole, (payload.get("step"), payload.get("epoch"))) if s is not None), None)
        for name, value in payload.items():
            if name not in NOT_A_SERIES and _is_number(value):
                self._point(str(name), value, step)

    def _point(self, name: str, value: Any, step: int | None) -> None:
        if step is None:
            step = self._counts.get(name, 0)
            self._counts[name] = step + 1
        self._reporter.metric(self._name, name, value, int(step))


def _whole(value: Any) -> int | None:
    """A step that is an int, also one of numpy."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _is_number(value: Any) -> bool:
    """A number, also one of numpy or a tensor of one element."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    if getattr(value, "ndim", None) != 0 or not callable(getattr(value, "item", None)):
        return False
    return isinstance(value.item(), (int, float)) and not isinstance(value.item(), bool)
