"""A graph run as the shim starts it: lines in, lines out, the exit status."""
import json
import os
import re
import threading
from pathlib import Path

import pytest

from conftest import PYTHON, ROOT
from engines import graph

CHILD = ROOT / "cdui" / "graph_child.py"
GOLDEN = Path(__file__).parent / "testdata" / "graph_run.jsonl"
GUIDE = ROOT.parent / "docs" / "graphs.md"

SUM = graph([("i", "GraphInput", {"name": "x", "type": "number", "default": "2"}), ("p", "Print", {"label": "got"}),
             ("o", "GraphOutput", {"name": "y"})], ["i.value>p.value", "p.value>o.value"])


@pytest.fixture
def child(shim):
    """Runs a prepared graph; keywords are the options and other fields of the input."""

    def start(prepared, options=None, after_start=None, **given):
        given = {
            "run_id": "r", "graph": prepared, "options": options or {}, "data_root": str(shim.folder), "search_dirs": [str(shim.folder)],
            "nodes_dir": str(shim.folder / "nodes"), "outputs_dir": str(shim.folder / "outputs"), "api_inputs": None, "max_parallel": 4, **given,
        }
        shim.down = json.dumps({"type": "assign", "run_id": "r", "input": given}).encode() + b"\n"
        return shim.run([PYTHON, "-I", "-B", "-u", str(CHILD)], after_start=after_start)

    return start


def user_nodes(shim, **files):
    folder = shim.folder / "nodes"
    folder.mkdir(exist_ok=True)
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(text)


def given(ended):
    """What a call gave, without what every run tells of its surroundings."""
    return [line for line in ended.of("facts") if not {"fingerprint", "numeric"} & set(line["facts"])]


def points(ended, name):
    return [p["value"] for line in ended.of("metrics") for p in line["points"] if p["name"] == name]


def statuses(ended, node_id):
    return [e["payload"]["status"] for e in ended.of("event") if e["payload"]["node_id"] == node_id and e["payload"]["status"] != "progress"]


def test_a_graph_runs_and_says_so(child):
    """Proves W-07, C.17, ROLE-16, ISO-10."""
    ended = child(SUM)
    assert (ended.code, ended.garbage, ended.err) == (0, [], "")
    assert ended.lines[0] == {"type": "hello", "watches_cancel": True}
    assert ended.lines[-1]["type"] == "finished" and ended.finished["status"] == "succeeded"
    assert set(ended.finished) == {"type", "status", "peak_memory"}
    assert ended.finished["peak_memory"]["cpu"]["exact"] is False and ended.finished["peak_memory"]["cpu"]["mib"] > 0
    assert [statuses(ended, n) for n in "ipo"] == [["running", "completed"]] * 3
    assert given(ended) == []


def test_a_graph_is_called_like_a_function(child):
    """Proves D.6."""
    ended = child(SUM, api_inputs={"x": 3.5})
    assert given(ended) == [{"type": "facts", "facts": {"api_outputs": {"y": 3.5}}}]
    assert given(child(SUM, api_inputs={}))[0]["facts"] == {"api_outputs": {"y": 2.0}}


def test_a_wrong_input_names_it(child):
    """Proves D.6."""
    ended = child(SUM, api_inputs={"x": [1]})
    assert ended.code == 1 and "'x'" in ended.finished["error"] and given(ended) == []


@pytest.mark.parametrize("body, kind, words", [
    ("object()", "UnserializableOutput", 'output "y": a object has no JSON form'),
    ("[0] * 65537", "OutputTooLarge", 'output "y": it has more than 65,536 elements'),
])
def test_outputs_that_cannot_be_sent_fail_the_call_but_no_plain_run(shim, child, body, kind, words):
    """Proves D.6."""
    user_nodes(shim, odd=f"from cdui.node import Node, Port\nclass Odd(Node):\n    NODE_NAME = 'Odd'\n    def execute(self, inputs, params):\n        return {{'value': {body}}}\n")
    odd = graph([("n", "Odd"), ("o", "GraphOutput", {"name": "y"})], ["n.value>o.value"])
    ended = child(odd, api_inputs={})
    assert (ended.code, ended.finished["status"], ended.finished["error_type"]) == (1, "failed", kind)
    assert words in ended.finished["error"]
    assert child(odd).code == 0


def test_a_nodes_error_fails_the_run(child):
    """Proves C.5, R-03."""
    ended = child(graph([("r", "FileReader", {"path": "gone.txt"})]))
    assert (ended.code, ended.finished["status"], ended.finished["end_class"]) == (1, "failed", "user_code")
    assert ended.finished["error_type"] == "FileNotFoundError"
    assert ended.finished["error"].startswith('node "r" (FileReader): FileNotFoundError: ') and "gone.txt" in ended.finished["error"]
    assert statuses(ended, "r") == ["running", "error"]
    assert "Traceback" not in ended.err


def test_an_unknown_type_is_a_bad_graph(shim, child):
    """Proves R-03."""
    user_nodes(shim, broken="1/0")
    ended = child(graph([("n", "Nowhere")]))
    assert (ended.code, ended.finished["end_class"]) == (1, "bad_graph")
    assert ended.finished["error"] == "unknown node type 'Nowhere'; broken.py could not be read: ZeroDivisionError: division by zero"


def test_without_a_graph_it_only_says_so(shim):
    shim.down = b'{"type":"assign","run_id":"r","input":{}}\n'
    ended = shim.run([PYTHON, "-I", "-B", "-u", str(CHILD)])
    assert ended.code == 2 and "no graph was assigned" in ended.err and ended.finished is None


def test_one_broken_user_file_takes_no_other_down(shim, child):
    """Proves CAT-10."""
    good = "from cdui.node import Node\nclass Good(Node):\n    NODE_NAME = 'Good'\n    def execute(self, inputs, params):\n        print('made')\n        return {'value': 1}\n"
    user_nodes(shim, a_broken="def (", good=good, z_exits="import sys; sys.exit(1)")
    ended = child(graph([("g", "Good")]))
    assert (ended.code, ended.out) == (0, "made\n")


def test_user_files_are_read_only_when_a_type_is_theirs(shim, child):
    user_nodes(shim, loud="print('read')")
    assert child(SUM).out == ""


def test_the_example_of_the_guide_works(shim, child):
    (source,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    user_nodes(shim, guide=source)
    ended = child(graph([("v", "GraphInput", {"type": "json", "default": "[1, 2, 6]"}), ("m", "MovingAverage", {"window": 2})], ["v.value>m.values"]))
    assert ended.code == 0, ended.finished
    assert points(ended, "average") == [1.0, 1.5, 4.0]
    entry = [e for e in ended.of("event") if e["payload"]["node_id"] == "m"][-1]["payload"]["outputs"]
    assert entry[0] == {"output_kind": "text", "text": "3 values"}
    assert entry[1]["tensor_summary"]["averages"]["values"] == [1.0, 1.5, 4.0]


# What needs torch.


LAYERS = json.dumps({
    "version": 2,
    "nodes": [{"id": "in", "type": "Input", "ports": [{"id": "x", "name": "x"}]},
              {"id": "flat", "type": "Flatten"},
              {"id": "fc", "type": "Linear", "params": {"in_features": 192, "out_features": 4}},
              {"id": "drop", "type": "Dropout", "params": {"p": 0.3}},
              {"id": "out", "type": "Output", "ports": [{"id": "y", "name": "y"}]}],
    "edges": [{"id": "1", "source": "in", "target": "flat", "sourceHandle": "x"}, {"id": "2", "source": "flat", "target": "fc"},
              {"id": "3", "source": "fc", "target": "drop"}, {"id": "4", "source": "drop", "target": "out", "targetHandle": "y"}],
})


def training(epochs, **params):
    """A small model on made-up pictures."""
    return graph(
        [("data", "SyntheticShapes", {"image_size": 8, "n_samples": 64}), ("loader", "DataLoader", {"batch_size": 16}),
         ("model", "SequentialModel", {"layers": LAYERS}), ("opt", "Optimizer", {"lr": 0.01}), ("loss", "Loss", {}),
         ("train", "TrainingLoop", {"epochs": epochs, **params}), ("show", "Print", {"label": "metrics"})],
        ["data.dataset>loader.dataset", "model.model>opt.model", "model.model>train.model", "loader.dataloader>train.dataloader",
         "opt.optimizer>train.optimizer", "loss.loss_fn>train.loss_fn", "train.metrics>show.value"],
    )


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def losses(child, **options):
    ended = child(training(3, batch_metrics=True), options)
    assert ended.code == 0, (ended.finished, ended.err)
    found = points(ended, "train_loss"), points(ended, "train_loss_batch")
    assert len(found[0]) == 3 and len(found[1]) == 12
    return found


def test_the_same_seed_gives_the_same_losses_bit_by_bit(torch, child):
    """Proves C.11, C.13."""
    assert losses(child, seed=7) == losses(child, seed=7)
    assert losses(child, seed=7, deterministic=True) == losses(child, seed=7)
    assert losses(child, seed=8) != losses(child, seed=7)
    assert losses(child) != losses(child)


def test_a_stop_in_the_middle_of_training_gives_partial_results(torch, shim, child):
    """Proves C.10, C.20."""
    def cancel(process, down):
        def wait():
            while not list(shim.folder.glob("models/periodic/*.pt")) and process.poll() is None:
                threading.Event().wait(0.02)
            os.write(down, b'{"type":"cancel","grace_ms":30000}\n')

        threading.Thread(target=wait).start()

    ended = child(training(10_000_000, checkpoint_every_steps=40), {"record_outputs": True}, after_start=cancel)
    assert (ended.code, ended.finished["status"]) == (0, "cancelled"), ended.err
    assert set(ended.finished) == {"type", "status", "peak_memory"}
    assert statuses(ended, "train") == ["running", "interrupted"]
    assert statuses(ended, "show") == []
    assert points(ended, "train_loss")
    kept = [a for a in ended.of("artifact") if a["meta"]["reason"] == "interrupted"]
    # It is told after all else that the loop had to say, but for how the node ended.
    after = ended.lines[ended.lines.index(kept[0]) + 1:]
    assert {line["type"] for line in after} <= {"event", "facts", "finished", "imported"} and "progress" not in [line.get("payload", {}).get("status") for line in after]
    assert len(kept) == 1 and Path(kept[0]["path"]).exists() and kept[0]["node_id"] == "train"
    index = json.loads((shim.folder / "outputs" / "index.json").read_text())
    assert {(o["node_id"], o["port"]) for o in index["outputs"]} >= {("train", "losses"), ("train", "model")}


def test_recorded_outputs_are_files_with_an_index(torch, shim, child):
    """Proves OUT-03."""
    made = graph([("t", "TensorInput", {"shape": "2,3", "value_mode": "arange"}), ("p", "Print")], ["t.tensor>p.value"])
    assert child(made, {"record_outputs": True}).code == 0
    folder = shim.folder / "outputs"
    index = json.loads((folder / "index.json").read_text())
    assert index["version"] == 1
    assert [(o["node_id"], o["port"], o["type"], o["shape"]) for o in index["outputs"]] == [
        ("t", "tensor", "tensor", [2, 3]), ("p", "value", "tensor", [2, 3])]
    for o in index["outputs"]:
        assert torch.load(folder / o["file"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert sorted(p.name for p in folder.iterdir()) == sorted([o["file"] for o in index["outputs"]] + ["index.json"])


def test_a_disk_that_takes_no_outputs_changes_no_verdict(torch, shim, child):
    (shim.folder / "outputs").write_text("in the way")
    ended = child(graph([("t", "TensorInput")]), {"record_outputs": True})
    assert (ended.code, ended.finished["status"]) == (0, "succeeded")
    assert "outputs were not kept" in ended.err


def test_a_device_that_is_not_here_becomes_the_cpu_with_a_warning(torch, child):
    """Proves C.9, C.16."""
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    ended = child(graph([("t", "TensorInput")]), {"device": "cuda:0"})
    assert (ended.code, ended.of("warning")) == (0, [
        {"type": "warning", "kind": "device_fallback", "meta": {"requested": "cuda:0", "used": "cpu"}}])


# what a small run tells, by event types and payload keys.


TELL = """
from cdui.node import Node, Port

class Tell(Node):
    NODE_NAME = "Tell"

    @classmethod
    def outputs(cls, params=None):
        return [Port("picture", "STRING", media="image"), Port("path", "STRING")]

    def execute(self, inputs, params, progress_callback, context):
        progress_callback({"event": "epoch", "epoch": 1, "total_epochs": 1, "loss": 0.5})
        context.log_artifact("checkpoint", context.data_root + "/models/a.pt", {"reason": "periodic"})
        context.warn("odd", why="so")
        return {"picture": "iVBORw0", "path": context.data_root + "/models/a.pt", "__log__": "said"}
"""


def shape(value, name=""):
    """A payload with the types of its values in their place; names of states and kinds stay."""
    if isinstance(value, dict):
        return {k: shape(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value]
    return value if name in ("type", "event", "status", "output_kind", "kind", "error_type", "end_class") else type(value).__name__


def test_R9_event_types_and_payload_keys_are_the_golden(torch, shim, child):
    """Proves R-09, EVT-06, EVT-08."""
    user_nodes(shim, tell=TELL)
    small = graph([("a", "TensorInput", {"shape": "2"}), ("bad", "FileReader", {"path": "gone"}), ("tell", "Tell"),
                   ("box/p", "Print", {"label": "x"}, "box"), ("after", "Print"), ("out", "GraphOutput")],
                  ["a.tensor>box/p.value", "bad.text>after.value", "a.tensor>out.value"])
    ended = child(small, {"seed": 1, "error_mode": "continue"}, api_inputs={})
    # Progress is sent by a thread of its own: only among events the order is fixed.
    told = ended.of("event") + [line for line in ended.lines if line["type"] not in ("event", "facts") or line in given(ended)]
    got = "".join(json.dumps(shape(line), separators=(",", ":")) + "\n" for line in told)
    assert ended.code == 0 and got == GOLDEN.read_text(encoding="ascii")
