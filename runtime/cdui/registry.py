"""The node classes: the built-in ones and those of a user's folder.

As a program it prints their definitions, without torch:

    python registry.py               the built-in ones
    python registry.py --user DIR    those of the .py files in DIR

The answer is a JSON list, sorted by name; an item {"file", "error"} stands for
a user file that failed and takes no other file down.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any

if __package__ in (None, ""):  # run as a file
    _HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [os.path.dirname(_HERE)] + [p for p in sys.path if p != _HERE]

from cdui import failure
from cdui.node import PARAM_TYPES, PORT_TYPES, Node, Param, Port

#: Names that an output entry of the event log has for itself.
RESERVED_MEDIA = ("output_kind", "port", "elided", "bytes", "cap_bytes")

NODES_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nodes")


def builtin_nodes() -> dict[str, type[Node]]:
    """The node classes of cdui.nodes by name."""
    found: dict[str, type[Node]] = {}
    for name in sorted(os.listdir(NODES_FOLDER)):
        stem, suffix = os.path.splitext(name)
        if suffix != ".py" or stem == "__init__":
            continue
        module = importlib.import_module("cdui.nodes." + stem)
        for node in vars(module).get("NODES", ()):
            if node.NODE_NAME in found:
                raise RuntimeError(f"two built-in nodes are called {node.NODE_NAME}")
            found[node.NODE_NAME] = node
    return found


def user_nodes(folder: str) -> tuple[dict[str, type[Node]], list[dict[str, str]]]:
    """The node classes that the .py files in ``folder`` define, and the files
    that could not be read, as {"file", "error"}."""
    found: dict[str, type[Node]] = {}
    problems: list[dict[str, str]] = []
    if folder not in sys.path:
        sys.path.append(folder)  # the files may import one another
    for name in sorted(os.listdir(folder)):
        stem, suffix = os.path.splitext(name)
        if suffix != ".py" or name.startswith("."):
            continue
        try:
            here: dict[str, type[Node]] = {}
            for node in _nodes_in(os.path.join(folder, name), stem):
                # A class that can't be described is found out here.
                json.dumps(definition(node, "custom"), allow_nan=False)
                if node.NODE_NAME in found or node.NODE_NAME in here:
                    raise ValueError(f"there is another node called {node.NODE_NAME}")
                here[node.NODE_NAME] = node
            found.update(here)
        except BaseException as error:  # a user's file may do anything, even exit
            if isinstance(error, KeyboardInterrupt):
                raise
            problems.append({"file": name, "error": failure.headline(error)})
    return found, problems


def _nodes_in(path: str, stem: str) -> list[type[Node]]:
    name = "cdui_user_nodes." + stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it can't be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Node) and value.__module__ == name and value.NODE_NAME
    ]


def definition(node: type[Node], provider: str) -> dict[str, Any]:
    """A node class as GET /api/nodes shows it; ValueError for one that is wrong."""
    for port in [*node.inputs(), *node.outputs()]:
        if port.data_type not in PORT_TYPES:
            raise ValueError(f"{node.NODE_NAME}: port {port.name} has the unknown type {port.data_type}")
        if port.media in RESERVED_MEDIA:
            raise ValueError(f"{node.NODE_NAME}: port {port.name} can't have the media {port.media}, which means something else")
    for param in node.params():
        if param.param_type not in PARAM_TYPES:
            raise ValueError(f"{node.NODE_NAME}: param {param.name} has the unknown type {param.param_type}")
    return {
        "node_name": node.NODE_NAME,
        "category": node.CATEGORY,
        "description": node.DESCRIPTION,
        "details": node.DETAILS,
        "provider": provider,
        "requires_pack": node.REQUIRES_PACK,
        "inputs": [_port(p) for p in node.inputs()],
        "outputs": [_port(p) for p in node.outputs()],
        "params": [_param(p) for p in node.params()],
    }


def _port(port: Port) -> dict[str, Any]:
    return dict(port._asdict())


def _param(param: Param) -> dict[str, Any]:
    out = dict(param._asdict())
    out["options"] = list(param.options)
    for bound in ("min_value", "max_value"):
        if out[bound] is not None:
            out[bound] = float(out[bound])
    if param.visible_when is not None:
        out["visible_when"] = dict(param.visible_when)
    return out


def listing(argv: list[str]) -> list[dict[str, Any]]:
    """What the program prints for its arguments."""
    if not argv:
        nodes = builtin_nodes()
        return [definition(nodes[name], "builtin") for name in sorted(nodes)]
    if argv[0] != "--user" or len(argv) != 2:
        raise SystemExit("usage: registry.py [--user DIR]")
    nodes, problems = user_nodes(argv[1])
    return [definition(nodes[name], "custom") for name in sorted(nodes)] + problems


if __name__ == "__main__":
    # A user's file may print while it is imported; that is no part of the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    items = listing(sys.argv[1:])
    json.dump(items, answer, indent=1, ensure_ascii=True)
    answer.write("\n")
    answer.flush()
    # Threads that a user's file left behind must not keep this process.
    os._exit(0)
