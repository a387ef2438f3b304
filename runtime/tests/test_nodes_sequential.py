"""SequentialModel: what descriptions build, and what is wrong with bad ones."""
import io
import json
import subprocess
import sys

import pytest

from conftest import ROOT
from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from cdui.nodes import layers, sequential  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


def spec(nodes, edges, inputs=("x",), outputs=("y",), **extra):
    """A description from (id, type, params) and "a>b" edges; ports are in.x and out.y."""
    found = [{"id": "in", "type": "Input", "ports": [{"id": "p_" + n, "name": n} for n in inputs]}]
    found += [{"id": i, "type": t, "params": p} for i, t, p in nodes]
    found.append({"id": "out", "type": "Output", "ports": [{"id": "p_" + n, "name": n} for n in outputs]})
    made = []
    for number, edge in enumerate(edges):
        source, target = edge.split(">")
        made.append({"id": str(number), "source": source.partition(".")[0], "target": target.partition(".")[0]})
        if "." in source:
            made[-1]["sourceHandle"] = "p_" + source.partition(".")[2]
        if "." in target:
            made[-1]["targetHandle"] = "p_" + target.partition(".")[2]
    return json.dumps({"version": 2, "nodes": found, "edges": made, **extra})


def chain(*nodes):
    ids = ["in.x", *(node[0] for node in nodes), "out.y"]
    return spec(nodes, [f"{a}>{b}" for a, b in zip(ids, ids[1:])])


def build(text):
    return run(sequential.SequentialModel, layers=text)["model"]


def test_default_is_a_cnn_for_mnist():
    """Proves B.2."""
    torch.manual_seed(0)
    got = build(sequential.SequentialModel.params()[0].default)
    torch.manual_seed(0)
    wanted = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
    )
    x = torch.randn(2, 1, 28, 28)
    assert torch.equal(got(x), wanted(x)) and torch.equal(got(x=x), wanted(x))
    assert list(got.state_dict())[:2] == ["layers.conv1.weight", "layers.conv1.bias"]


IMAGE, ROWS, SEQUENCE = (2, 4, 8, 8), (2, 4), (2, 6, 8)


@pytest.mark.parametrize("kind, params, shape, plain", [
    ("Conv2d", {"in_channels": 4, "out_channels": 3, "kernel_size": 3}, IMAGE, lambda: nn.Conv2d(4, 3, 3)),
    ("Conv1d", {"in_channels": 6, "out_channels": 3, "kernel_size": 3}, SEQUENCE, lambda: nn.Conv1d(6, 3, 3)),
    ("ConvTranspose2d", {"in_channels": 4, "out_channels": 3, "kernel_size": 2}, IMAGE, lambda: nn.ConvTranspose2d(4, 3, 2)),
    ("BatchNorm2d", {"num_features": 4}, IMAGE, lambda: nn.BatchNorm2d(4)),
    ("BatchNorm1d", {"num_features": 4}, ROWS, lambda: nn.BatchNorm1d(4)),
    ("LayerNorm", {"normalized_shape": [8, 8]}, IMAGE, lambda: nn.LayerNorm([8, 8])),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}, IMAGE, lambda: nn.GroupNorm(2, 4)),
    ("InstanceNorm2d", {"num_features": 4}, IMAGE, lambda: nn.InstanceNorm2d(4)),
    ("MaxPool2d", {"kernel_size": 2}, IMAGE, lambda: nn.MaxPool2d(2)),
    ("AvgPool2d", {"kernel_size": 2}, IMAGE, lambda: nn.AvgPool2d(2)),
    ("AdaptiveAvgPool2d", {"output_size": 2}, IMAGE, lambda: nn.AdaptiveAvgPool2d(2)),
    ("Dropout", {"p": 0.5}, ROWS, lambda: nn.Dropout(0.5)),
    ("Linear", {"in_features": 4, "out_features": 2}, ROWS, lambda: nn.Linear(4, 2)),
    ("Flatten", {}, IMAGE, lambda: nn.Flatten()),
    ("LSTM", {"input_size": 8, "hidden_size": 5, "batch_first": True}, SEQUENCE, lambda: nn.LSTM(8, 5, batch_first=True)),
    ("GRU", {"input_size": 8, "hidden_size": 5}, SEQUENCE, lambda: nn.GRU(8, 5)),
    *[(name, {"ignored": 1}, ROWS, cls) for name, cls in [
        ("ReLU", nn.ReLU), ("GELU", nn.GELU), ("Sigmoid", nn.Sigmoid), ("Tanh", nn.Tanh), ("LeakyReLU", nn.LeakyReLU), ("ELU", nn.ELU),
        ("SiLU", nn.SiLU), ("Mish", nn.Mish), ("SELU", nn.SELU), ("PReLU", nn.PReLU), ("Hardswish", nn.Hardswish),
        ("Softmax", lambda: nn.Softmax(-1))]],
], ids=lambda value: value if isinstance(value, str) else "")
def test_layers_are_pytorchs(kind, params, shape, plain):
    """Proves B.2."""
    torch.manual_seed(1)
    got = build(chain(("layer", kind, params)))
    torch.manual_seed(1)
    wanted = plain()
    x = torch.randn(shape)
    torch.manual_seed(2)
    a = got(x)
    torch.manual_seed(2)
    b = wanted(x)
    assert torch.equal(a, b[0] if isinstance(b, tuple) else b)


def test_embedding_select_and_reshape():
    """Proves B.2."""
    got = build(chain(("e", "Embedding", {"num_embeddings": 5, "embedding_dim": 4}), ("s", "SelectIndex", {"index": 2}), ("r", "Reshape", {"shape": "2, -1"})))
    tokens = torch.tensor([[1, 2, 3], [4, 0, 1]])
    assert torch.equal(got(tokens), got.layers["e"].weight[tokens[:, 2]].view(2, 2, 2))


@pytest.mark.parametrize("kind", ["TransformerEncoder", "TransformerDecoder"])
def test_transformers(kind):
    """Proves B.2."""
    torch.manual_seed(1)
    got = build(chain(("t", kind, {"d_model": 8, "nhead": 2, "num_layers": 2, "dim_feedforward": 16}))).eval()
    torch.manual_seed(1)
    layer = getattr(nn, kind + "Layer")(8, 2, 16, batch_first=True)
    wanted = getattr(nn, kind)(layer, 2).eval()
    x = torch.randn(SEQUENCE)
    assert torch.allclose(got(x), wanted(x) if kind.endswith("Encoder") else wanted(x, x), atol=1e-6)


def test_self_attention():
    """Proves B.2."""
    torch.manual_seed(1)
    got = build(chain(("a", "MultiHeadAttention", {"embed_dim": 8, "num_heads": 2})))
    torch.manual_seed(1)
    wanted = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(SEQUENCE)
    assert torch.allclose(got(x), wanted(x, x, x)[0], atol=1e-6)


@pytest.mark.parametrize("kind, params, join", [
    ("Add", {}, lambda a, b: a + b), ("Multiply", {}, lambda a, b: a * b), ("Mean", {}, lambda a, b: (a + b) / 2),
    ("Subtract", {}, lambda a, b: a - b), ("Concat", {}, lambda a, b: torch.cat([a, b], 1)), ("Stack", {"dim": 0}, lambda a, b: torch.stack([a, b])),
])
def test_merges_take_edges_in_their_order(kind, params, join):
    """Proves B.2."""
    model = build(spec([("m", kind, params), ("t", "Tanh", {})], ["t>m", "in.x>t", "in.x>m", "m>out.y"]))
    x = torch.randn(2, 3)
    assert torch.equal(model(x), join(x.tanh(), x))


def test_several_inputs_and_outputs():
    """Proves B.2."""
    model = build(spec([("s", "Subtract", {}), ("t", "Tanh", {})], ["in.b>s", "in.a>s", "s>t", "t>out.t", "s>out.s"], ("a", "b"), ("t", "s")))
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    got = model(a, b=b)
    assert list(got) == ["t", "s"] and torch.equal(got["s"], b - a) and torch.equal(got["t"], (b - a).tanh())
    for args, named in (((a,), {}), ((a, b, a), {}), ((a, b), {"b": b}), ((a,), {"c": b})):
        with pytest.raises(TypeError, match="takes the inputs a, b and was given"):
            model(*args, **named)


LINEAR = ("l", "Linear", {"in_features": 1, "out_features": 1})
GOOD = json.loads(chain(LINEAR))


def changed(change):
    copy = json.loads(json.dumps(GOOD))
    change(copy)
    return json.dumps(copy)


@pytest.mark.parametrize("text, message", [
    ("{", "it is not JSON"), ("[]", "must be an object"), ("{}", "version is None and 2 is wanted"),
    (changed(lambda s: s.update(version=1)), "version is 1"),
    (changed(lambda s: s.update(nodes=None)), "nodes must be a list"),
    (changed(lambda s: s["nodes"].append(s["nodes"][1])), "two nodes have the same id"),
    (changed(lambda s: s["nodes"][1].update(type="Conv9d")), "node 'l' has the unknown type 'Conv9d'"),
    (changed(lambda s: s["nodes"].pop(0)), "0 nodes of type Input"),
    (changed(lambda s: s["nodes"][0].update(ports=[])), "Input needs ports"),
    (changed(lambda s: s["nodes"][2]["ports"].append({"id": "z", "name": "y"})), "two ports of Output have the same id or name"),
    (changed(lambda s: s["nodes"][2]["ports"].append({"id": "z", "name": "z"})), "output 'z' has 0 edges"),
    (changed(lambda s: s["nodes"][0]["ports"].append({"id": "z", "name": "z"})), "input 'z' is not used"),
    (changed(lambda s: s["edges"][0].update(source="gone")), "the node 'gone', which is not there"),
    (changed(lambda s: s["edges"][0].update(sourceHandle="gone")), "an edge from Input names the port 'gone'"),
    (changed(lambda s: s["edges"][1].pop("targetHandle")), "an edge into Output names the port None"),
    (changed(lambda s: s["edges"].append(s["edges"][0])), r"node 'l' \(Linear\) has 2 edges into it and must have 1"),
    (changed(lambda s: s["edges"].append(s["edges"][1])), "output 'y' has 2 edges"),
    (spec([("m", "Add", {})], ["in.x>m", "m>out.y"]), r"\(Add\) has 1 edges into it and must have 2 or more"),
    (spec([("m", "Subtract", {})], ["in.x>m", "in.x>m", "in.x>m", "m>out.y"]), r"\(Subtract\) has 3 edges into it and must have 2"),
    (spec([("a", "Add", {}), ("b", "Tanh", {})], ["in.x>a", "b>a", "a>b", "b>out.y"]), "the nodes a, b form a cycle"),
    (chain(("l", "Linear", {"in_features": 1})), r"layer 'l' \(Linear\) refuses its params .*out_features"),
    (chain(("l", "Reshape", {"shape": "a"})), "shape must be whole numbers"),
    (chain(("type", "Tanh", {})), "keeps the name 'type' for itself"),
    (chain(("a.b", "Tanh", {})), "the id 'a.b' can't name a layer"),
])
def test_what_is_wrong_is_said(text, message):
    """Proves B.2."""
    with pytest.raises(ValueError, match="layers can't be used: .*" + message):
        build(text)


def test_a_whole_model_can_be_loaded_in_another_process(tmp_path):
    model = build(chain(("r", "Reshape", {"shape": "2"}), ("g", "GRU", {"input_size": 2, "hidden_size": 2})))
    torch.save(model, tmp_path / "m.pt")
    assert isinstance(torch.load(io.BytesIO((tmp_path / "m.pt").read_bytes()), **only_if_known()), layers.Network)
    code = f"import torch; print(torch.load({str(tmp_path / 'm.pt')!r}, **{only_if_known()!r})(torch.ones(1, 2)).shape)"
    got = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "torch.Size([1, 2])"


def only_if_known():
    import inspect

    return {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
