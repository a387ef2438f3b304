"""Which device a name stands for, and moving values there."""
import collections
import sys
import types

import pytest

from cdui import devices
from cdui.node import Context
from cdui.nodes.devices import choose


@pytest.fixture
def machine(monkeypatch):
    """A torch that sees so many cards, the current one, and mps or not."""

    def see(cards=0, current=0, mps=False):
        cuda = types.SimpleNamespace(
            is_available=lambda: cards > 0, device_count=lambda: cards, current_device=lambda: current,
            set_device=lambda device: used.append(device))
        backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: mps))
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, backends=backends))

    used = see.used = []
    return see


CARDS, MAC, BARE = {"cards": 3, "current": 1}, {"mps": True}, {}


@pytest.mark.parametrize("seen, name, device, warned", [
    (CARDS, None, "cpu", False), (CARDS, "", "cpu", False), (CARDS, "cpu", "cpu", False),
    (CARDS, "auto", "cuda:1", False), (MAC, "auto", "mps", False), (BARE, "auto", "cpu", False),
    (CARDS, "cuda", "cuda:1", False), (CARDS, "cuda:2", "cuda:2", False), (CARDS, " CUDA:0 ", "cuda:0", False),
    (CARDS, "cuda:3", "cuda:1", True), (CARDS, "cuda:x", "cuda:1", True), (CARDS, "cuda:", "cuda:1", True),
    (BARE, "cuda", "cpu", True), (MAC, "cuda:0", "cpu", True),
    (MAC, "mps", "mps", False), (MAC, "mps:1", "mps", False), (CARDS, "mps", "cpu", True),
])
def test_names(machine, seen, name, device, warned):
    """Proves C.9."""
    machine(**seen)
    warnings = []
    assert devices.resolve(name, lambda kind, **detail: warnings.append((kind, detail))) == device
    assert warnings == ([("device_fallback", {"requested": name.strip().lower(), "used": device})] if warned else [])


def test_a_name_that_means_nothing_is_an_error(machine):
    machine(**CARDS)
    with pytest.raises(ValueError, match="device is 'gpu': choose auto, cpu, cuda"):
        devices.resolve("gpu", None)


def test_the_cpu_needs_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert devices.resolve("cpu", None) == "cpu"
    assert choose("auto", Context()) == "cpu"
    assert devices.move([1, {"a": (2,)}], "cpu") == [1, {"a": (2,)}]


def test_a_nodes_auto_is_the_runs_device(machine):
    """Proves C.9."""
    machine(**CARDS)
    context = Context(device="cuda:2")
    assert [choose(name, context) for name in ("auto", "", None, "cpu")] == ["cuda:2", "cuda:2", "cuda:2", "cpu"]
    assert context.warnings == []


def test_a_card_becomes_the_threads_current_one(machine):
    machine(**CARDS)
    for name in ("cpu", "mps", "cuda:2"):
        devices.use(name)
    assert machine.used == ["cuda:2"]


def test_moving_keeps_what_holds_the_tensors():
    """Proves B.1."""
    torch = pytest.importorskip("torch")
    Pair = collections.namedtuple("Pair", "a b")
    ordered = collections.OrderedDict(x=torch.ones(2))
    value = {"list": [torch.ones(1), 3], "pair": Pair(torch.ones(1), "b"), "ordered": ordered, "none": None}
    there = devices.move(value, "meta")
    assert there["list"][0].device.type == "meta" and there["list"][1] == 3
    assert type(there["pair"]) is Pair and there["pair"].a.device.type == "meta" and there["pair"].b == "b"
    assert type(there["ordered"]) is collections.OrderedDict and there["ordered"]["x"].device.type == "meta"
    assert value["list"][0].device.type == ordered["x"].device.type == "cpu"


def test_what_holds_nothing_to_move_comes_back_as_it_is():
    torch = pytest.importorskip("torch")
    for value in ([1, 2], {"a": torch.ones(1)}, (torch.ones(1), [torch.ones(1)]), "text"):
        assert devices.move(value, "cpu") is value
