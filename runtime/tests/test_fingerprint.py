"""What a run was executed with and made of, as its own process tells it."""
import hashlib
import json
import sys

import pytest

from cdui import fingerprint
from engines import graph
from test_graph_child import child, user_nodes  # noqa: F401

HOST = '{"cores":2,"devices":[{"device":"cpu"}]}'


def told(ended, what):
    return [line["facts"][what] for line in ended.of("facts") if what in line["facts"]]


def test_a_script_tells_when_it_is_done(shim):
    """Proves CAT-08: after all that the script does itself, and without torch."""
    shim.env["CDUI_HOST"] = HOST
    ended = shim.script("""
        import atexit, os, cdui
        atexit.register(cdui.log, {"last": 1})
        print(os.environ.get("CDUI_HOST"))
        """)
    assert (ended.code, ended.out, ended.err) == (0, "None\n", "")
    assert [line["type"] for line in ended.lines] == ["hello", "metrics", "facts"], "after the script's own"
    (doc,) = told(ended, "fingerprint")
    assert doc["host"] == json.loads(HOST) and told(ended, "numeric") == []
    assert doc["python"]["implementation"] == "cpython" and doc["python"]["version"].count(".") == 2
    assert all(p.count("==") == 1 for p in doc["packages"]) and doc["packages"] == sorted(doc["packages"])


@pytest.mark.parametrize("source, code", [("1/0", 1), ("raise SystemExit(3)", 3), ("raise SystemExit('no')", 1), ("x = = 1", 1)])
def test_a_script_that_fails_tells_too(shim, source, code):
    """Proves CAT-08."""
    ended = shim.script(source)
    assert ended.code == code and len(told(ended, "fingerprint")) == 1


def test_only_the_process_of_the_run_tells(shim):
    ended = shim.script("import os, cdui\nif os.fork() == 0: raise SystemExit(0)\nos.wait()")
    assert len(told(ended, "fingerprint")) == 1 and ended.socket_of("facts") == []


def test_a_script_alone_loads_nothing_for_it(shim):
    """Proves CAT-08: it costs a script nothing before its first line."""
    ended = shim.script("import sys; print([m for m in sys.modules if 'fingerprint' in m or m == '_json'])")
    assert ended.out == "[]\n"


def test_a_torch_that_is_loaded_is_told_with_what_results_depend_on(shim):
    """Proves CAT-08."""
    (shim.folder / "torch.py").write_text(
        "import types\n__version__, version = '9.1', types.SimpleNamespace(cuda='12')\n"
        "get_num_threads = lambda: 3\nget_default_dtype = lambda: 'torch.float32'\ncuda = types.SimpleNamespace(is_available=lambda: False)")
    ended = shim.script("import torch")
    (numeric,) = told(ended, "numeric")
    assert told(ended, "fingerprint") == told(shim.script("pass"), "fingerprint")  # the environment is the same
    assert (numeric["torch"], numeric["cuda"]) == ("9.1", "12")
    assert (numeric["threads"], numeric["dtype"], numeric["deterministic"]) == (3, "torch.float32", None)


def test_a_graph_tells_before_its_nodes_run(shim, child):  # noqa: F811
    """Proves CAT-08, CAT-09: and of no sources, unless it is asked."""
    shim.env["CDUI_HOST"] = HOST
    ended = child(graph([("n", "Print")]))
    kinds = [line["type"] for line in ended.lines]
    assert kinds.index("facts") < kinds.index("event")
    assert told(ended, "fingerprint")[0]["host"] == json.loads(HOST) and told(ended, "node_source") == []


def test_sources_of_nodes_are_recorded_one_by_one(shim, child):  # noqa: F811
    """Proves CAT-09."""
    text = "from cdui.node import Node\ndef helper():\n    return 1\nclass Own(Node):\n    NODE_NAME = 'Own'\n    def execute(self, inputs, params):\n        return {}\n"
    user_nodes(shim, own=text)
    nodes = [("a", "Own"), ("b", "Own"), ("i", "GraphInput", {"name": "x", "type": "number", "default": "2"}), ("p", "Print")]
    ended = child(graph(nodes, ["i.value>p.value"]), options={"provenance": True})
    assert ended.code == 0, ended.err
    read, own, printed = told(ended, "node_source")
    assert (own["name"], own["kind"], own["source"]) == ("Own", "user", text)
    assert own["sha256"] == hashlib.sha256(text.encode()).hexdigest() and own["file"].endswith("own.py")
    assert read["name"] == "GraphInput"
    assert (printed["name"], printed["kind"]) == ("Print", "builtin")
    assert printed["source"].startswith("class Print") and len(printed["sha256"]) == 64


def test_a_script_is_recorded_as_it_was_when_it_began(shim):
    """Proves CAT-09."""
    source = "open(__file__, 'w').write('changed')\nimport os; print(os.environ.get('CDUI_PROVENANCE'))\n"
    assert told(shim.script(source), "node_source") == []
    shim.env["CDUI_PROVENANCE"] = "1"
    ended = shim.script(source)
    (record,) = told(ended, "node_source")
    assert ended.out == "None\n" and record["source"] == source and record["kind"] == "script"
    assert record["file"] == str(shim.folder / "train.py")
    (record,) = told(shim.script("#" + "é" * 300_000), "node_source")
    assert record["cut"] is True and len(record["source"]) == 256 * 1024


def test_what_it_builds_is_json():
    value = {"a\"\n": [None, True, False, 3, "é\\ud800", {}], "b": {"c": []}}
    assert json.loads(fingerprint.encode(value)) == value


def test_packages_are_named_by_their_folders(tmp_path, monkeypatch):
    """Proves CAT-08."""
    first, second, other = tmp_path / "a-packages", tmp_path / "b" / "dist-packages", tmp_path / "code"
    for folder, names in ((first, ["Foo_Bar-1.2.dist-info", "bar"]), (second, ["foo_bar-9.dist-info", "old-3.1-py3.11.egg-info"]),
                          (other, ["no-1.dist-info"])):
        for name in names:
            (folder / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(other), str(first), str(second), str(tmp_path / "gone-packages")])
    assert fingerprint.packages() == ["foo-bar==1.2", "old==3.1"]
