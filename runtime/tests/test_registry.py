"""The list of node types, and the files of users that add to it."""
import json
import subprocess
import sys

import pytest

from cdui import registry
from conftest import PYTHON, ROOT

REGISTRY = ROOT / "cdui" / "registry.py"
CATALOG = ROOT.parent / "internal" / "catalog" / "builtin.json"
KEYS = ["node_name", "category", "description", "details", "provider", "requires_pack", "inputs", "outputs", "params"]

GOOD = """
from cdui.node import Node, Param, Port

class Double(Node):
    NODE_NAME = "Double"
    CATEGORY = "Mine"
    DESCRIPTION = "Twice as much."

    @classmethod
    def inputs(cls, params=None):
        return [Port("x", "ANY")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("y", "ANY")]

    @classmethod
    def params(cls):
        return [Param("times", "int", 2, min_value=1)]

    def execute(self, inputs, params):
        return {"y": inputs["x"] * params["times"]}
"""


def listing(*argv):
    got = subprocess.run([PYTHON, "-I", "-B", str(REGISTRY), *argv], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(got.stdout)


def simple(name, body="", base="Node"):
    return f"from cdui.node import *\nfrom cdui.node import Node, Port, Param\nclass {name}({base}):\n    NODE_NAME = {name!r}\n    {body or 'pass'}\n"


@pytest.fixture
def folder(tmp_path):
    def put(**files):
        for stem, text in files.items():
            (tmp_path / f"{stem}.py").write_text(text)
        return str(tmp_path)

    return put


def test_the_list_is_sorted_whole_and_the_same_each_time():
    """B.1: the keys of a definition."""
    first = listing()
    assert [d["node_name"] for d in first] == sorted(d["node_name"] for d in first)
    assert all(list(d) == KEYS and d["provider"] == "builtin" for d in first)
    assert first == listing()


def test_the_catalogue_of_the_control_plane_is_this_list():
    """Proves P-02, CAT-10."""
    assert json.loads(CATALOG.read_text()) == listing(), "run 'make gen' and commit internal/catalog/builtin.json"


def test_listing_imports_no_torch():
    """Proves CAT-10."""
    code = f"import runpy, sys, os; sys.modules['torch'] = None; os._exit = lambda c: None; sys.argv = ['registry.py']; runpy.run_path({str(REGISTRY)!r}, run_name='__main__')"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_every_builtin_says_what_it_is():
    for d in listing():
        assert d["category"] and d["description"], d["node_name"]
        names = [p["name"] for p in d["params"]]
        assert len(names) == len(set(names)), d["node_name"]
        for param in d["params"]:
            if param["param_type"] == "select":
                assert param["default"] in param["options"], (d["node_name"], param["name"])
            for sibling in param["visible_when"] or {}:
                assert sibling in names, (d["node_name"], param["name"])


# Types whose result depends on more than their inputs and params, or whose work
# is outside: new weights, files, other nodes' state, chance.
NEVER_CACHED = """
BatchNorm1d BatchNorm2d Conv1d Conv2d ConvTranspose2d Embedding GroupNorm GRU InstanceNorm2d LayerNorm Linear LSTM MultiHeadAttention
RNNCell TransformerDecoder TransformerEncoder DiffusionUNet TimestepEmbedding SequentialModel
CheckpointLoader CheckpointSaver ModelLoader ModelSaver ImageWriter Dataset DataLoader
Optimizer LRScheduler TrainingLoop DiffusionTrainingLoop EvaluateModel Inference DQN PPO RewardModel
PythonScript GaussianNoise DDPMSampler BackwardOnce
""".split()


def test_what_must_not_come_from_a_cache_says_so():
    """Proves C.8, B.1."""
    nodes = registry.builtin_nodes()
    assert [name for name in NEVER_CACHED if nodes[name].cacheable] == []
    assert nodes["Add"].cacheable and nodes["Print"].cacheable


def test_a_users_file_adds_its_nodes(folder):
    """Proves CAT-10, B.1."""
    (got,) = listing("--user", folder(double=GOOD))
    assert (got["node_name"], got["provider"], got["params"][0]["min_value"]) == ("Double", "custom", 1.0)


@pytest.mark.parametrize("text, words", [
    ("def broken(:", "SyntaxError"),
    ("raise OSError('no such card')", "OSError: no such card"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("import nothing_of_that_name", "nothing_of_that_name"),
    (simple("Odd", "outputs = classmethod(lambda cls, params=None: [Port('x', 'BLOB')])"), "port x has the unknown type BLOB"),
    (simple("Odd", "params = classmethod(lambda cls: [Param('x', 'colour', 1)])"), "param x has the unknown type colour"),
    (simple("Odd", "params = classmethod(lambda cls: [Param('x', 'int', object())])"), "not JSON serializable"),
    (simple("Odd", "params = classmethod(lambda cls: [Param('x', 'float', float('nan'))])"), "JSON compliant"),
    (simple("Odd", "outputs = classmethod(lambda cls, params=None: [Port('x', 'ANY', media='bytes')])"), "can't have the media bytes"),
    (simple("Odd", "def inputs(self): return [1 / 0]"), "TypeError"),
])
def test_a_broken_file_is_named_and_takes_no_other_down(folder, text, words):
    """Proves CAT-10."""
    got = listing("--user", folder(a_broken=text, double=GOOD))
    assert [d.get("node_name") for d in got] == ["Double", None]
    assert got[1]["file"] == "a_broken.py" and words in got[1]["error"]


def test_of_two_nodes_with_one_name_the_first_file_keeps_it(folder):
    got = listing("--user", folder(a=GOOD, b=simple("Other") + "\n" + GOOD))
    assert [d.get("node_name") for d in got] == ["Double", None]
    assert got[1] == {"file": "b.py", "error": "ValueError: there is another node called Double"}


def test_what_a_file_prints_is_no_part_of_the_list(folder):
    noisy = "import os\nprint('noise')\nos.write(1, b'more noise')\nos.system('echo and more')\n" + GOOD
    assert [d["node_name"] for d in listing("--user", folder(noisy=noisy))] == ["Double"]


def test_files_may_import_one_another(folder):
    where = folder(base=simple("Base", "CATEGORY = 'Mine'"), derived="from base import Base\n" + simple("Derived", base="Base"))
    assert [(d["node_name"], d["category"]) for d in listing("--user", where)] == [("Base", "Mine"), ("Derived", "Mine")]


def test_threads_that_a_file_leaves_keep_nothing(folder):
    thread = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    assert [d["node_name"] for d in listing("--user", folder(busy=thread + GOOD))] == ["Double"]


def test_imported_classes_belong_to_their_own_file(folder):
    assert listing("--user", folder(loose="from cdui.nodes.control import Start\nfrom cdui.node import Node\n")) == []


def test_usage():
    got = subprocess.run([PYTHON, str(REGISTRY), "--what"], capture_output=True, text=True, timeout=60)
    assert got.returncode == 1 and got.stdout == "" and "usage" in got.stderr


def test_user_nodes_are_run_in_process_too(folder):
    nodes, problems = registry.user_nodes(folder(double=GOOD, bad="1/0"))
    assert nodes["Double"]().execute({"x": 4}, {"times": 3}) == {"y": 12}
    assert problems == [{"file": "bad.py", "error": "ZeroDivisionError: division by zero"}]
