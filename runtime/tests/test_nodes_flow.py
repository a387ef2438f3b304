"""Map, Reduce, Switch and PythonScript."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import flow, script  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


PRESET = {"inputs": [{"name": "x", "node": "n", "port": "tensor"}], "outputs": [{"name": "y", "node": "n", "port": "tensor"}]}


class WithPresets(Context):
    """A context whose presets double their input; asks to stop after some items."""

    def __init__(self, stop_after=99):
        super().__init__(presets={"Double": PRESET, "Closed": {"inputs": [], "outputs": []}})
        self.left = stop_after

    def should_stop(self):
        return self.left == 0

    def run_preset(self, name, inputs):
        self.left -= 1
        return {"y": inputs["x"] * 2, "other": None} if self.left else {}


def test_map_applies_a_preset_to_each_item():
    """Proves B.5."""
    got = run(flow.Map, {"items": [1, 2.5]}, WithPresets(), subgraph=" Double ")
    assert got == {"results": [2, 5.0], "count": 2}
    rows = run(flow.Map, {"items": torch.eye(2)}, WithPresets(), subgraph="Double")["results"]
    assert [row.tolist() for row in rows] == [[2, 0], [0, 2]]


def test_map_gives_what_it_has_when_stopped():
    """Proves C.10."""
    got = run(flow.Map, {"items": [1, 2, 3]}, WithPresets(stop_after=2), subgraph="Double")
    assert got == {"results": [2], "count": 1, "__interrupted__": {"reason": "stopped", "done": 1, "total": 3}}


@pytest.mark.parametrize("name, message", [
    ("", "subgraph is empty"), ("Triple", r"no preset of that name is installed \(there are: Closed, Double\)"), ("Closed", "exposes no input or no output"),
])
def test_map_says_what_is_wrong(name, message):
    with pytest.raises(ValueError, match=message):
        run(flow.Map, {"items": []}, WithPresets(), subgraph=name)


A, B = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]])


@pytest.mark.parametrize("operation, dim, items, wanted", [
    ("sum", 0, [1, 2, 4], 7), ("mean", 0, [1, 2], 1.5), ("min", 0, [3, 1.5], 1.5), ("max", 0, [0.1, 0.2], 0.2), ("first", 0, ["a", "b"], "a"),
    ("last", 0, ["a", "b"], "b"), ("concat", 0, ["a", "b"], "ab"), ("concat", 0, [[1], [2, 3]], [1, 2, 3]), ("stack", 0, [1, 2], torch.tensor([1, 2])),
    ("sum", 0, [A, B], A + B), ("mean", 0, [A, B], (A + B) / 2), ("min", 0, [A, B], torch.minimum(A, B)), ("max", 0, [A, B], torch.maximum(A, B)),
    ("concat", 1, [A, B], torch.cat([A, B], 1)), ("stack", 1, [A, B], torch.stack([A, B], 1)), ("sum", 1, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([3.0, 7.0])),
    ("mean", 0, [torch.tensor([1, 2]), torch.tensor([2, 2])], torch.tensor([1.5, 2.0], dtype=torch.float64)),
])
def test_reduce(operation, dim, items, wanted):
    """Proves B.5."""
    got = run(flow.Reduce, {"items": items}, operation=operation, dim=dim)
    assert torch.equal(got["result"], wanted) if isinstance(wanted, torch.Tensor) else got["result"] == wanted
    assert got["count"] == len(items)


def test_reduce_keeps_the_precision_of_numbers():
    assert run(flow.Reduce, {"items": [0.1, 0.2]}, operation="sum")["result"] == 0.1 + 0.2


@pytest.mark.parametrize("items, operation, message", [
    ([], "sum", "there are no items"), (["a", 1], "mean", "needs numbers or tensors and the items are int, str"), ([1], "product", "operation is 'product'"),
])
def test_reduce_says_what_is_wrong(items, operation, message):
    with pytest.raises(ValueError, match=message):
        run(flow.Reduce, {"items": items}, operation=operation)


@pytest.mark.parametrize("selector, wanted", [(0, "a"), (2, "c"), (2.9, "c"), (torch.tensor(2), "c"), (1, "a"), (7, "a"), (-1, "a"), (True, "a")])
def test_switch(selector, wanted):
    """Proves B.5."""
    assert run(flow.Switch, {"selector": selector, "input_0": "a", "input_2": "c"}) == {"output": wanted}


def test_switch_needs_a_number():
    with pytest.raises(ValueError, match="selector is 'x' and must be a number"):
        run(flow.Switch, {"selector": "x", "input_0": 1})


def lines(*text):
    return "\n".join(text)


def test_script_ports_follow_the_params():
    """Proves A.8."""
    params = {"input_ports": "3x", "output_ports": 99, "input_types": "tensor,, nonsense", "output_types": "LIST"}
    assert [tuple(port[:2]) for port in script.PythonScript.inputs(params)] == [("in1", "TENSOR"), ("in2", "ANY"), ("in3", "ANY")]
    outputs = script.PythonScript.outputs(params)
    assert len(outputs) == 8 and outputs[0].data_type == "LIST" and outputs[7].name == "out8"
    assert all(port.optional for port in script.PythonScript.inputs(params))


def test_script_gives_a_value_or_values_by_port():
    """Proves B.5."""
    assert run(script.PythonScript, {"in1": 3}) == {"out1": 3}
    code = "def run(inputs, params):\n    return {'out2': inputs['in1'], 'out1': params['output_ports']}"
    assert run(script.PythonScript, {"in1": 3}, code=code, output_ports=3) == {"out1": 3, "out2": 3, "out3": None}
    assert run(script.PythonScript, code="def run(i, p): return {'a': 1}") == {"out1": {"a": 1}}
    assert run(script.PythonScript, code="def run(i, p): pass") == {"out1": None}


def test_script_imports_what_it_may():
    """Proves B.5."""
    code = lines("import math, numpy as np, torch.nn.functional as F", "from collections import Counter", "def run(inputs, params):",
                 "    import statistics, itertools, json, re", "    return float(F.relu(inputs['in1']).sum()) + math.pi + np.ones(2).sum() + Counter('aa')['a']")
    assert run(script.PythonScript, {"in1": torch.tensor([-1.0, 2.0])}, code=code)["out1"] == pytest.approx(2 + 3.14159265 + 2 + 2)


def test_what_a_script_prints_is_its_log():
    """Proves B.5."""
    code = "def run(inputs, params):\n    print('a', 1, sep='-')\n    print('b', end='!')\n    return 0"
    assert run(script.PythonScript, code=code) == {"out1": 0, "__log__": "a-1\nb!"}
    log = run(script.PythonScript, code="def run(i, p):\n    for n in range(100_000): print(n)")["__log__"]
    assert len(log) < script.MAX_PRINT_CHARS + 20 and log.endswith("... [cut]")


@pytest.mark.parametrize("code, message", [
    ("import os", "line 1 of the script: ImportError: a script can't import os; it may import collections, "),
    ("\nfrom os import path", "line 2 of the script: ImportError"), ("from . import x", "can't import"),
    ("def run(i, p):\n    return 1 +", "line 2 of the script: SyntaxError"), ("x = 1", "defines no function run"), ("run = 3", "defines no function run"),
    ("def run(i, p):\n    x = 0\n    return helper(x)\ndef helper(x):\n    return 1 / x", "line 5 of the script: ZeroDivisionError: division by zero"),
    ("import math\ndef run(i, p):\n    return math.sqrt(-1)", "line 3 of the script: ValueError"),
    ("def run(i, p):\n    raise SystemExit(3)", "line 2 of the script: SystemExit: 3"), ("def run(i, p): open('x')", "line 1 of the script: NameError"),
    ("def run(): pass", "the script: TypeError"), ("def run(i, p): return {'out1': 1, 'out2': 2}", "run gave out2, and the outputs are out1: set output_ports"),
])
def test_script_errors_name_the_line(code, message):
    """Proves B.5."""
    with pytest.raises(script.ScriptError, match=message):
        run(script.PythonScript, code=code)


def test_a_script_may_not_be_endless():
    """Proves B.5."""
    with pytest.raises(ValueError, match="code has 100001 characters and may have 100000"):
        run(script.PythonScript, code="#" * 100_001)


def test_what_was_printed_before_a_failure_is_not_lost(capsys):
    with pytest.raises(script.ScriptError):
        run(script.PythonScript, code="print('so far')\nraise ValueError")
    assert capsys.readouterr().out == "so far\n"


def test_running_out_of_memory_stays_what_it_is():
    with pytest.raises(MemoryError):
        run(script.PythonScript, code="def run(i, p): raise MemoryError('x')")
