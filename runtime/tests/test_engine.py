"""How a prepared graph is executed."""
import hashlib
import random
import subprocess
import threading
import weakref

import pytest

from cdui import engine, seeding
from cdui.node import Param, Port, derive_seed
from conftest import PYTHON, ROOT
from engines import failing, graph, node, run

CHAIN = graph([("a", "Value", {"value": 2}), ("b", "Sum"), ("c", "Sum")], ["a.value>b.a", "b.value>c.a", "a.value>c.b"])


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(engine, "RETRY_WAIT_S", 0)


def test_values_flow_and_every_node_reports_running_then_completed():
    """Proves C.3, EVT-02."""
    ran = run(CHAIN)
    assert ran.outcome.status == "succeeded"
    assert ran.statuses() == [(n, s) for n in "abc" for s in ("running", "completed")]
    assert ran.last("c")["outputs"] == [
        {"output_kind": "text", "text": "2 numbers"},
        {"output_kind": "tensor_summary", "tensor_summary": {"value": {"type": "scalar", "value": 4}}},
    ]


def test_a_level_begins_when_the_one_before_has_ended():
    """Proves C.2."""
    wide = graph([(str(i), "Value") for i in range(8)] + [("end", "Sum")], ["0.value>end.a", "7.value>end.b"])
    order = run(wide, max_parallel=4).statuses()
    assert order[-2:] == [("end", "running"), ("end", "completed")]
    assert sorted(order[:-2]) == sorted((str(i), s) for i in range(8) for s in ("running", "completed"))


def side_by_side(parties):
    """A node that ends only when so many of its kind run at once."""
    together = threading.Barrier(parties, timeout=20)
    return node("Meet", lambda self, inputs, params: {"value": together.wait()})


def test_nodes_of_a_level_run_together():
    """Proves C.2."""
    ran = run(graph([(str(i), "Meet") for i in range(4)]), side_by_side(4), max_parallel=4)
    assert ran.outcome.status == "succeeded"


def test_no_more_than_max_parallel_nodes_run_at_once():
    """Proves C.2."""
    lock, now, most = threading.Lock(), [0], [0]

    def execute(self, inputs, params):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1
        return {"value": 0}

    run(graph([(str(i), "Busy") for i in range(12)]), node("Busy", execute), max_parallel=3)
    assert 1 <= most[0] <= 3


def test_a_seeded_run_takes_one_node_after_the_other():
    """Proves C.2, C.11."""
    ran = run(graph([(str(i), "Value") for i in range(6)]), seed=1, max_parallel=4)
    assert ran.statuses() == [(str(i), s) for i in range(6) for s in ("running", "completed")]


# Errors.


BRANCHES = graph([("bad", "Failing"), ("after", "Sum"), ("later", "Sum"), ("good", "Value")],
                 ["bad.value>after.a", "after.value>later.a"])


def test_fail_fast_ends_the_run_with_the_error_and_its_place():
    """Proves C.5."""
    bad, _ = failing(ValueError("no\nway"))
    ran = run(BRANCHES, bad, max_parallel=1)
    assert ran.outcome.status == "failed"
    assert ran.outcome.error == 'node "bad" (Failing): ValueError: no way'
    assert (ran.outcome.error_type, ran.outcome.end_class) == ("ValueError", "user_code")
    # A sibling that had not begun does not begin, nor does what follows.
    assert ran.statuses() == [("bad", "running"), ("bad", "error")]
    assert ran.last("bad") == {"node_id": "bad", "status": "error", "error": "ValueError: no way", "error_type": "ValueError"}


def test_fail_fast_asks_siblings_that_run_to_stop():
    """Proves C.5."""
    begun = threading.Event()

    def long(self, inputs, params, context):
        begun.set()
        while not context.should_stop():
            threading.Event().wait(0.001)
        return {"value": 1, "__interrupted__": {"reason": "stopped"}}

    def short(self, inputs, params):
        begun.wait(20)
        raise RuntimeError("x")

    ran = run(graph([("long", "Long"), ("short", "Short")]), node("Long", long), node("Short", short))
    assert ran.outcome.status == "failed"
    assert ran.statuses("long") == ["running", "interrupted"]


def test_continue_skips_dependents_and_succeeds():
    """Proves C.5, C.3."""
    bad, _ = failing(ValueError("no"))
    ran = run(BRANCHES, bad, error_mode="continue", max_retries=3)
    assert ran.outcome.status == "succeeded"
    assert ran.statuses("bad") == ["running", "error"]
    assert ran.statuses("after") == ran.statuses("later") == ["skipped"]
    assert ran.statuses("good") == ["running", "completed"]


@pytest.mark.parametrize("failures, retries, status", [(1, 1, "completed"), (2, 3, "completed"), (3, 2, "error")])
def test_retry_tries_again_then_goes_on_like_continue(failures, retries, status):
    """Proves C.5."""
    bad, calls = failing(ValueError("no"), failures)
    ran = run(BRANCHES, bad, error_mode="retry", max_retries=retries)
    assert ran.outcome.status == "succeeded"
    assert ran.statuses("bad") == ["running", status]
    assert len(calls) == min(failures, retries) + 1
    assert ran.statuses("later")[-1] == ("completed" if status == "completed" else "skipped")


def test_the_wait_grows_by_half_a_second_with_each_try(monkeypatch):
    """Proves C.5."""
    monkeypatch.undo()
    waits = []
    monkeypatch.setattr(engine.Engine, "_wait", lambda self, seconds: waits.append(seconds) or True)
    run(BRANCHES, failing(ValueError("no"))[0], error_mode="retry", max_retries=3)
    assert waits == [0.5, 1.0, 1.5]


def test_a_stop_ends_the_wait_between_two_tries(monkeypatch):
    """Proves C.10."""
    monkeypatch.setattr(engine, "RETRY_WAIT_S", 3600)
    bad, calls = failing(ValueError("no"))
    ran = run(BRANCHES, bad, error_mode="retry", max_retries=5, should_stop=lambda: len(calls) > 0)
    assert (len(calls), ran.outcome.status) == (1, "cancelled")


@pytest.mark.parametrize("error", [
    MemoryError(),
    RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    type("OutOfMemoryError", (RuntimeError,), {})("hip"),
])
def test_out_of_memory_is_never_retried_and_gives_hints(error):
    """Proves C.6."""
    bad, calls = failing(error)
    ran = run(BRANCHES, bad, error_mode="retry", max_retries=5)
    assert len(calls) == 1
    last = ran.last("bad")
    assert last["error_type"] == "NodeOOMError"
    for hint in ("out of memory on cpu", "smaller batch_size", "bf16", "accumulate_steps", "smaller model"):
        assert hint in last["error"]


def test_out_of_memory_ends_a_fail_fast_run_as_such():
    """Proves C.6, R-03."""
    bad, _ = failing(MemoryError())
    ran = run(BRANCHES, bad)
    assert (ran.outcome.status, ran.outcome.end_class, ran.outcome.error_type) == ("failed", "out_of_memory", "NodeOOMError")


def test_a_failed_node_holds_on_to_nothing():
    class Big:
        pass

    seen = []

    def execute(self, inputs, params):
        big = Big()
        seen.append(weakref.ref(big))
        raise MemoryError(big.__class__.__name__)

    ran = run(graph([("n", "Fails"), ("v", "Value")], levels=[["n"], ["v"]]), node("Fails", execute), error_mode="continue")
    assert ran.statuses("n") == ["running", "error"] and seen[0]() is None


def test_inputs_go_to_the_device_of_the_node_unless_it_aligns_them_itself(monkeypatch):
    """Proves B.1, C.9."""
    moved = []
    monkeypatch.setattr(engine.devices, "resolve", lambda name, warn, auto="": auto if name == "auto" else name)
    monkeypatch.setattr(engine.devices, "move", lambda value, device: moved.append(device) or value)
    params = classmethod(lambda cls: [Param("device", "select", "auto")])
    takes = node("Takes", lambda self, inputs, params: {}, params=params)
    host = node("Host", lambda self, inputs, params: {}, params=params, align_inputs=False)
    edges = [f"v.value>{i}.x" for i in "abc"]
    run(graph([("v", "Value"), ("a", "Takes"), ("b", "Takes", {"device": "mps"}), ("c", "Host")], edges), takes, host, max_parallel=1)
    assert moved == ["cpu", "mps"]


@pytest.mark.parametrize("result, words", [(None, "a NoneType, not a dict"), ([1], "a list, not a dict")])
def test_a_node_that_gives_no_dict_fails_by_name(result, words):
    ran = run(graph([("n", "Odd")]), node("Odd", lambda self, inputs, params: result))
    assert 'node "n" (Odd)' in ran.outcome.error and words in ran.outcome.error


def test_a_node_that_exits_fails_and_takes_nothing_along():
    def leave(self, inputs, params):
        raise SystemExit(3)

    ran = run(graph([("n", "Leave"), ("v", "Value")]), node("Leave", leave), error_mode="continue")
    assert ran.last("n")["error"] == "SystemExit: 3"
    assert ran.statuses("v") == ["running", "completed"]


def test_a_missing_output_is_an_error_only_where_it_is_needed():
    empty = node("Empty", lambda self, inputs, params: {})
    needed = run(graph([("e", "Empty"), ("s", "Sum")], ["e.value>s.a"]), empty)
    assert 'input "a": node "e" gave no output "value"' in needed.outcome.error
    optional = run(graph([("v", "Value"), ("e", "Empty"), ("s", "Sum")], ["v.value>s.a", "e.value>s.b"]), empty)
    assert optional.outcome.status == "succeeded"


def test_verbose_shows_the_traceback(capfd):
    """Proves C.5."""
    for verbose in (False, True):
        run(BRANCHES, failing(ValueError("deep down"))[0], verbose=verbose)
        assert ("Traceback" in capfd.readouterr().err) == verbose


# Stops.


def test_a_stop_between_nodes_cancels_and_begins_nothing():
    """Proves C.10."""
    done = []
    last = node("Last", lambda self, inputs, params: done.append(1) or {"value": 1})
    ran = run(graph([("a", "Last"), ("b", "Last"), ("c", "Last")], levels=[["a", "b"], ["c"]]), last,
              max_parallel=1, should_stop=lambda: len(done) > 0)
    assert ran.outcome.status == "cancelled" and ran.outcome.error == ""
    assert ran.statuses() == [("a", "running"), ("a", "completed")]


def test_a_partial_result_is_reported_as_interrupted():
    """Proves C.10, C.3, B.1."""
    stop = threading.Event()

    def loop(self, inputs, params, context):
        stop.set()
        assert context.should_stop()
        return {"value": 7, "__interrupted__": {"reason": "stopped"}}

    ran = run(graph([("n", "Loop"), ("s", "Sum")], ["n.value>s.a"]), node("Loop", loop),
              should_stop=stop.is_set, record_outputs=True)
    assert ran.outcome.status == "cancelled"
    assert ran.last("n")["status"] == "interrupted"
    assert ran.last("n")["outputs"][0]["tensor_summary"] == {"value": {"type": "scalar", "value": 7}}
    assert ran.outcome.captured == {("n", "value"): 7}
    assert ran.statuses("s") == []


def test_a_stop_after_the_last_level_cancels_too():
    """Proves C.10."""
    done = []
    last = node("Last", lambda self, inputs, params: done.append(1) or {})
    assert run(graph([("a", "Last")]), last, should_stop=lambda: bool(done)).outcome.status == "cancelled"


# Blocks.


BLOCK = graph([("p/a", "Value", {}, "p"), ("p/b", "Sum", {}, "p"), ("out", "Sum")], ["p/a.value>p/b.a", "p/b.value>out.a"])


def test_a_block_reports_once_and_its_inner_nodes_beside_it():
    """Proves C.4, EVT-02."""
    ran = run(BLOCK)
    assert ran.statuses() == [("p", "running"), ("p", "completed"), ("out", "running"), ("out", "completed")]
    assert ran.inner() == [("p/a", "running"), ("p/a", "completed"), ("p/b", "running"), ("p/b", "completed")]


def test_an_inner_error_is_the_blocks_error_at_once():
    """Proves C.4."""
    bad, _ = failing(ValueError("no"))
    block = graph([("p/a", "Failing", {}, "p"), ("p/b", "Sum", {}, "p"), ("out", "Sum")], ["p/a.value>p/b.a", "p/b.value>out.a"])
    ran = run(block, bad, error_mode="continue")
    assert ran.statuses() == [("p", "running"), ("p", "error"), ("out", "skipped")]
    assert ran.last("p")["error"] == "ValueError: no"
    assert ran.inner() == [("p/a", "running"), ("p/a", "error"), ("p/b", "skipped")]


def test_a_block_is_skipped_when_all_of_it_is_and_completed_when_any_ran():
    """Proves C.4."""
    bad, _ = failing(ValueError("no"))
    skipped = graph([("x", "Failing"), ("p/a", "Sum", {}, "p")], ["x.value>p/a.a"])
    assert run(skipped, bad, error_mode="continue").statuses("p") == ["skipped"]
    mixed = graph([("x", "Failing"), ("p/a", "Sum", {}, "p"), ("p/b", "Value", {}, "p")], ["x.value>p/a.a"],
                  levels=[["x"], ["p/a"], ["p/b"]])
    assert run(mixed, bad, error_mode="continue").statuses("p") == ["running", "completed"]


def test_metrics_progress_artifacts_and_warnings_of_an_inner_node_bear_the_blocks_id():
    """Proves C.4, C.16, EVT-02."""
    def execute(self, inputs, params, progress_callback, context):
        progress_callback({"loss": 1.0})
        context.log_metric("m", 2.0)
        context.log_artifact("file", "/x", {"a": float("nan")})
        context.warn("odd", node_id=context.node_id, why="so")
        return {}

    ran = run(graph([("p/n", "Tell", {}, "p")]), node("Tell", execute, outputs=()))
    assert {p["node_id"] for p in ran.events} == {"p"}
    assert [point["node_id"] for line in ran.of("metrics") for point in line["points"]] == ["p", "p"]
    assert ran.of("artifact") == [{"type": "artifact", "kind": "file", "path": "/x", "meta": {"a": None}, "node_id": "p"}]
    assert ran.of("warning") == [{"type": "warning", "kind": "odd", "meta": {"why": "so"}, "node_id": "p"}]


# Progress and metrics.


def told(*payloads, log=None):
    def execute(self, inputs, params, progress_callback, context):
        if log:
            context.log_metric(*log)
        for p in payloads:
            progress_callback(p)
        return {}

    return run(graph([("n", "Tell")]), node("Tell", execute, outputs=()))


def test_progress_comes_after_running_and_before_the_end():
    """Proves C.3."""
    ran = told({"event": "config", "config": {"lr": 0.1}}, {"event": "batch", "batch": 1})
    assert [p["status"] for p in ran.events] == ["running", "progress", "progress", "completed"]
    assert ran.events[1]["outputs"] == [{"output_kind": "progress", "progress": {"event": "config", "config": {"lr": 0.1}}}]


def test_numbers_of_progress_become_series():
    """Proves C.18."""
    ran = told(
        {"event": "epoch", "epoch": 1, "total_epochs": 2, "loss": 0.5, "losses": [0.5], "note": "x", "done": True, "start_epoch": 0},
        {"event": "epoch", "epoch": 2, "step": 10, "loss": 0.25, "batch": 3, "total_batches": 4},
        {"event": "epoch", "epoch": 3, "step": None, "loss": float("nan")},
        {"other": 1}, {"other": 2},
    )
    assert ran.points("loss") == [(1, 0.5), (10, 0.25), (3, None)]
    assert ran.points("other") == [(0, 1), (1, 2)]
    assert {p["name"] for line in ran.of("metrics") for p in line["points"]} == {"loss", "other"}


def test_neither_batches_nor_nodes_that_log_give_series_by_themselves():
    """Proves C.18."""
    assert told({"event": "batch", "loss": 0.5}).of("metrics") == []
    ran = told({"event": "epoch", "epoch": 1, "loss": 0.5}, log=("train_loss", 0.5, 1))
    assert ran.points("train_loss") == [(1, 0.5)] and ran.points("loss") == []


def test_a_number_of_numpy_is_a_number():
    numpy = pytest.importorskip("numpy")
    ran = told({"epoch": numpy.int64(4), "loss": numpy.float32(0.5), "flag": numpy.bool_(True), "many": numpy.zeros(3)})
    assert ran.points("loss") == [(4, 0.5)]
    assert len(ran.of("metrics")) == 1


# Outputs.


def test_recorded_outputs_hold_every_port_and_the_step_trace():
    """Proves C.14, B.1."""
    steps = [{"weight": 1, "meta": {"n": 0}}, {"weight": 2}]
    traced = node("Traced", lambda self, inputs, params: {"value": 5, "__steps__": steps, "__log__": "x"})
    ran = run(graph([("n", "Traced"), ("v", "Value")]), traced, record_outputs=True)
    assert ran.outcome.captured == {
        ("n", "value"): 5, ("n", "__step__0__weight"): 1, ("n", "__step__0__meta"): {"n": 0},
        ("n", "__step__1__weight"): 2, ("v", "value"): 1,
    }
    assert run(graph([("v", "Value")])).outcome.captured == {}


def test_media_ports_are_shown_and_not_summarized():
    """Proves B.1, D.4."""
    values = {"picture": "iVBORw0", "plot": {"kind": "bar", "y": [1, float("inf")]}, "thing": {"a": 1}, "nothing": None}
    ports = [Port("picture", "STRING", media="image"), Port("plot", "ANY", media="chart"),
             Port("thing", "ANY", media="graph3d"), Port("nothing", "ANY", media="video")]
    ran = run(graph([("n", "Show")]), node("Show", lambda self, inputs, params: values, outputs=ports))
    assert ran.last("n")["outputs"] == [
        {"output_kind": "image", "image": {"format": "png", "encoding": "base64", "data": "iVBORw0"}, "port": "picture"},
        {"output_kind": "chart", "chart": {"kind": "bar", "y": [1, None]}, "port": "plot"},
        {"output_kind": "graph3d", "graph3d": {"a": 1}, "port": "thing"},
    ]


def test_values_that_nobody_waits_for_are_let_go(monkeypatch):
    held = []

    class Big:
        def __del__(self):
            held.remove(1)

    def make(self, inputs, params):
        held.append(1)
        return {"value": Big()}

    nodes = [node("Make", make), node("Use", lambda self, inputs, params: {"value": len(held)}),
             node("Count", lambda self, inputs, params: {"value": len(held)})]
    ran = run(graph([("m", "Make"), ("u", "Use"), ("c", "Count")], ["m.value>u.x", "u.value>c.x"]), *nodes)
    assert ran.last("u")["outputs"][0]["tensor_summary"]["value"]["value"] == 1
    assert ran.last("c")["outputs"][0]["tensor_summary"]["value"]["value"] == 0


def test_graph_outputs_are_collected_by_name():
    """Proves D.6."""
    prepared = graph([("v", "Value", {"value": 3}), ("o", "GraphOutput", {"name": "answer"})], ["v.value>o.value"])
    assert run(prepared, builtin=True).outcome.api_outputs == {"answer": 3}


def test_inputs_and_outputs_inside_blocks_take_no_part():
    """Proves A.6, D.6."""
    prepared = graph([("p/i", "GraphInput", {"name": "x", "default": "own"}, "p"), ("p/o", "GraphOutput", {"name": "y"}, "p"),
                      ("i", "GraphInput", {"name": "x", "default": "own"}), ("o", "GraphOutput", {"name": "z"})],
                     ["p/i.value>p/o.value", "i.value>o.value"])
    ran = run(prepared, builtin=True, api_inputs={"x": "given"}, record_outputs=True)
    assert ran.outcome.api_outputs == {"z": "given"}
    assert ran.outcome.captured["p/o", "value"] == "own"


# Presets that a node applies.


def test_a_node_applies_a_preset_like_a_function():
    double = graph([("s", "Sum")])
    double.update(inputs=[{"name": "x", "node": "s", "port": "a"}, {"name": "y", "node": "s", "port": "b"}],
                  outputs=[{"name": "sum", "node": "s", "port": "value"}])
    apply = node("Apply", lambda self, inputs, params, context: {"value": context.run_preset("Double", {"x": 4, "y": 5})["sum"]})
    ran = run(graph([("n", "Apply")], presets={"Double": double}), apply)
    assert ran.last("n")["outputs"][0]["tensor_summary"]["value"]["value"] == 9
    assert ran.statuses() == [("n", "running"), ("n", "completed")]


# Seeds.


def test_every_node_and_every_retry_begins_with_its_own_seed(monkeypatch):
    """Proves C.11."""
    seeded = []
    monkeypatch.setattr(engine, "seed_everything", seeded.append)
    bad, _ = failing(ValueError("no"), 2)
    run(graph([("a", "Value"), ("f", "Failing")]), bad, seed=7, error_mode="retry", max_retries=2)
    assert seeded == [derive_seed(7, "a")] + [derive_seed(7, "f")] * 3
    seeded.clear()
    run(graph([("a", "Value")]))
    assert seeded == []


def test_derived_seeds_are_the_documented_ones():
    """Proves C.11."""
    # BLAKE2b of 8 bytes over "<seed>" NUL "<label>", big-endian, modulo 2**32.
    for seed, label in ((0, "a"), (42, "dataloader:x"), (2**32 - 1, "é")):
        digest = hashlib.blake2b(str(seed).encode() + b"\0" + label.encode(), digest_size=8).digest()
        assert derive_seed(seed, label) == int.from_bytes(digest, "big") % 2**32


def test_seeding_covers_python_and_numpy():
    """Proves C.11."""
    numpy = pytest.importorskip("numpy")

    def draw():
        seeding.seed_everything(5)
        return random.random(), float(numpy.random.rand())

    assert draw() == draw()


def test_a_node_is_told_of_its_run():
    """Proves B.1: the context, and that only what execute declares is passed."""
    seen = {}

    def execute(self, inputs, params, context):
        names = ("run_id", "node_id", "graph_id", "device", "seed", "deterministic", "verbose", "backward_mode", "weights_persistent")
        seen.update({name: getattr(context, name) for name in names}, derived=context.derived_seed("x"), stop=context.should_stop(),
                    artifacts=context.can_record_artifacts())
        return {}

    ran = run(graph([("n", "Ask"), ("v", "Value")]), node("Ask", execute, outputs=()), run_id="r", graph_id="g", seed=3, verbose=True)
    assert ran.outcome.status == "succeeded"
    assert seen == {"run_id": "r", "node_id": "n", "graph_id": "g", "device": "cpu", "seed": 3, "deterministic": False, "verbose": True,
                    "backward_mode": False, "weights_persistent": False, "derived": derive_seed(3, "x"), "stop": False, "artifacts": True}


def test_deterministic_kernels_are_asked_for_and_only_warn():
    """Proves C.13."""
    pytest.importorskip("torch")
    code = ("import sys, os; sys.path.insert(0, sys.argv[1]); from cdui.seeding import make_deterministic; make_deterministic(); import torch; "
            "print(os.environ['CUBLAS_WORKSPACE_CONFIG'], torch.are_deterministic_algorithms_enabled(), "
            "torch.is_deterministic_algorithms_warn_only_enabled(), torch.backends.cudnn.benchmark)")
    got = subprocess.run([PYTHON, "-c", code, str(ROOT)], capture_output=True, text=True, check=True)
    assert got.stdout == ":4096:8 True True False\n"


def test_a_graph_without_torch_never_imports_it():
    paths = [str(ROOT), str(ROOT / "tests")]
    code = f"import sys; sys.path[:0] = {paths}; import engines as e; e.run(e.graph([('v', 'Value')])); print('torch' in sys.modules)"
    assert subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
