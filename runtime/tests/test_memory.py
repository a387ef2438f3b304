"""Holding torch's allocator to the run's budget, and what a run took."""
import importlib.util
import json
import sys
import types

import pytest

from cdui import memory
from engines import graph
from test_graph_child import child  # noqa: F401

#: A torch that does with CUDA what the real one does, as far as budgets go.
FAKE_TORCH = '''
import types
class OutOfMemoryError(RuntimeError): pass
class DeferredCudaCallError(Exception): pass
class cuda:
    cards, calls, ready, starting, fractions = [24 << 30, 8 << 30], [], False, False, {}
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: len(cuda.cards))
    is_initialized = staticmethod(lambda: cuda.ready)
    max_memory_reserved = staticmethod(lambda i: (3 - i) << 30)
    def _lazy_call(call):
        call() if cuda.ready else cuda.calls.append(call)
    def init():
        if cuda.ready or cuda.starting:
            return
        print("cuda starts")
        cuda.starting = True
        for call in cuda.calls:
            try:
                call()
            except Exception as e:
                raise DeferredCudaCallError(str(e))
        cuda.ready = True
    def get_device_properties(i):
        cuda.init()
        return types.SimpleNamespace(total_memory=cuda.cards[i])
    def set_per_process_memory_fraction(fraction, i):
        cuda.init()
        cuda.fractions[i] = fraction
'''


@pytest.fixture
def budgeted(shim):
    (shim.folder / "torch").mkdir()
    (shim.folder / "torch" / "__init__.py").write_text(FAKE_TORCH)
    shim.env["CDUI_MEMORY_BUDGET_MIB"] = "12288"
    return shim


def limits(ended):
    return [line["memory_limit"] for line in ended.of("memory_limit")]


def test_a_script_is_limited_when_cuda_starts_and_not_before(budgeted):
    """Proves MEM-05, Q-04: on each card, by what it has; a budget beyond it is all of it."""
    ended = budgeted.script("""
        import sys, torch
        print(torch.__spec__.loader is torch.__loader__, type(torch.__loader__).__name__, torch.cuda.ready)
        torch.cuda.init()
        print(torch.cuda.fractions, [f for f in sys.meta_path if "Awaiting" in type(f).__name__])
        """)
    assert ended.out == "True SourceFileLoader False\ncuda starts\n{0: 0.5, 1: 1.0} []\n", ended.err
    assert limits(ended) == [{"cuda:0": 12288, "cuda:1": 8192}]


def test_a_script_that_never_uses_cuda_does_not_start_it(budgeted):
    """Proves MEM-05."""
    ended = budgeted.script("import torch")
    assert (ended.code, ended.out, limits(ended)) == (0, "", [])
    assert set(ended.finished["peak_memory"]) == {"cpu"}


def test_a_script_without_torch_pays_nothing(budgeted):
    """Proves MEM-05."""
    modules = "import sys; print(sorted(sys.modules))"
    ended = budgeted.script(modules)
    assert ended.of("finished") == [] and limits(ended) == []
    del budgeted.env["CDUI_MEMORY_BUDGET_MIB"]
    assert budgeted.script(modules).out == ended.out


def test_without_a_budget_nothing_is_limited(budgeted):
    """Proves W-09."""
    del budgeted.env["CDUI_MEMORY_BUDGET_MIB"]
    ended = budgeted.script("import torch; torch.cuda.init(); print(torch.cuda.fractions)")
    assert ended.out == "cuda starts\n{}\n" and limits(ended) == []


def test_an_import_that_fails_may_be_tried_again(budgeted):
    """Proves MEM-05."""
    (budgeted.folder / "torch" / "__init__.py").write_text("if broken: 1/0\n" + FAKE_TORCH)
    ended = budgeted.script("""
        import builtins
        builtins.broken = True
        try:
            import torch
        except ZeroDivisionError:
            print("failed")
        builtins.broken = False
        import torch
        torch.cuda.init()
        print(torch.cuda.fractions)
        """)
    assert ended.out == "failed\ncuda starts\n{0: 0.5, 1: 1.0}\n", ended.err


def test_a_limit_that_cannot_be_set_is_a_warning_and_cuda_starts(budgeted):
    ended = budgeted.script("import torch; torch.cuda.cards[0] = 0; torch.cuda.init(); print(torch.cuda.ready)")
    assert ended.out == "cuda starts\nTrue\n"
    assert [w["kind"] for w in ended.of("warning")] == ["memory_limit_failed"] and limits(ended) == []


def test_running_out_of_the_budget_says_how_much_it_was(budgeted):
    """Proves R-03, Q-04."""
    ended = budgeted.script("import torch; torch.cuda.init(); raise torch.OutOfMemoryError('CUDA out of memory')")
    words, took = ended.of("finished")
    assert words["end_class"] == "out_of_memory"
    assert words["error"] == (
        "OutOfMemoryError: CUDA out of memory (the run's memory budget is 12288 MiB on each card; give it more with --memory)")
    assert took["peak_memory"]["cuda:0"] == {"mib": 3072, "exact": True}
    assert took["peak_memory"]["cuda:1"] == {"mib": 2048, "exact": True} and "status" not in took


def test_a_script_with_children_counts_only_itself(budgeted):
    """Proves W-09: what is exact is the allocator of a single process."""
    for work in ("subprocess.run(['true'])", "subprocess.Popen(['sleep', '9'], start_new_session=True)"):
        ended = budgeted.script(f"import subprocess, torch; torch.cuda.init(); p = {work}")
        assert ended.finished["peak_memory"]["cuda:0"] == {"mib": 3072, "exact": False}


def test_a_forked_process_does_not_speak_for_the_run(budgeted):
    ended = budgeted.script("""
        import os, torch
        torch.cuda.init()
        if os.fork() == 0:
            raise SystemExit(0)
        os.wait()
        """)
    assert len(ended.of("finished")) == 1


@pytest.fixture
def torch_here(monkeypatch):
    spec = importlib.util.spec_from_loader("torch", loader=None)
    torch = importlib.util.module_from_spec(spec)
    exec(FAKE_TORCH, torch.__dict__)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_a_graph_is_limited_before_it_begins(torch_here, monkeypatch):
    """Proves MEM-05, W-09."""
    sent = []
    memory.limit_now(sent.append)
    assert sent == []
    monkeypatch.setenv("CDUI_MEMORY_BUDGET_MIB", "6144")
    memory.limit_now(lambda line: sent.append(json.loads(line)))
    assert sent == [{"type": "memory_limit", "memory_limit": {"cuda:0": 6144, "cuda:1": 6144}}]
    assert torch_here.cuda.fractions == {0: 0.25, 1: 0.75}


def test_a_graph_whose_limit_fails_says_so_and_that_there_is_none(torch_here, monkeypatch):
    """Proves W-09."""
    monkeypatch.setenv("CDUI_MEMORY_BUDGET_MIB", "6144")
    torch_here.cuda.set_per_process_memory_fraction = lambda *_: 1 / 0
    sent = []
    memory.limit_now(lambda line: sent.append(json.loads(line)))
    assert [line["type"] for line in sent] == ["warning", "memory_limit"] and sent[1]["memory_limit"] is None


def test_a_spare_that_has_torch_already_is_limited_too(torch_here, monkeypatch):
    """Proves MEM-05."""
    monkeypatch.setenv("CDUI_MEMORY_BUDGET_MIB", "6144")
    before = list(sys.meta_path)
    sent = []
    memory.limit_later(lambda line: sent.append(json.loads(line)))
    assert sys.meta_path == before and sent == []
    torch_here.cuda.init()
    assert sent == [{"type": "memory_limit", "memory_limit": {"cuda:0": 6144, "cuda:1": 6144}}]


def test_peak_memory_of_cards_is_exact(monkeypatch):
    """Proves ISO-11, ISO-10: a child runs one graph, so torch's own count is the run's; of the cpu it is an estimate."""
    peaks = {0: 700 << 20, 1: 0}
    cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
                                 max_memory_reserved=peaks.__getitem__)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    peak = memory.peak()
    assert peak["cuda:0"] == {"mib": 700, "exact": True} and "cuda:1" not in peak
    assert peak["cpu"]["exact"] is False and peak["cpu"]["mib"] > 0


def test_with_the_torch_of_this_machine(shim, child):  # noqa: F811
    """Proves MEM-05: the real torch knows the calls that the fake one imitates."""
    torch = pytest.importorskip("torch")
    shim.env["CDUI_MEMORY_BUDGET_MIB"] = "1024"
    ended = shim.script("import torch; print(len(torch.cuda._queued_calls), float(torch.ones(3).sum()))")
    assert (ended.code, ended.err, ended.out.split()[1]) == (0, "", "3.0")
    assert int(ended.out.split()[0]) >= 1 and ended.of("warning") == [] and ended.finished["peak_memory"]["cpu"]["mib"] > 0
    ended = child(graph([("n", "Print")]))
    lines = [line["type"] for line in ended.lines]
    assert lines.index("memory_limit") < lines.index("event")
    if not torch.cuda.is_available():
        assert limits(ended) == [None]
