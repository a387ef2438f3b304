"""Category Data Flow: choosing, repeating and summing up values."""

from __future__ import annotations

from typing import Any

from cdui.node import Node, Param, Port


class Map(Node):
    """Applies an installed preset to each item of a list; its first exposed input
    takes the item, its first exposed output gives the result."""

    NODE_NAME = "Map"
    CATEGORY = "Data Flow"
    DESCRIPTION = "Applies a preset to each item."
    DETAILS = "subgraph is the name of an installed preset. A stopped run gives the results so far."

    @classmethod
    def inputs(cls, params=None):
        return [Port("items", "LIST", "a tensor is taken row by row")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("results", "LIST"), Port("count", "SCALAR")]

    @classmethod
    def params(cls):
        return [Param("subgraph", "string", "", "Name of the preset.")]

    def execute(self, inputs, params, context):
        name, items = str(params["subgraph"]).strip(), list(inputs["items"])
        if not name:
            raise ValueError("subgraph is empty: name an installed preset")
        preset = context.presets.get(name)
        run = getattr(context, "run_preset", None)
        if preset is None or run is None:
            known = ", ".join(sorted(context.presets)) or "none"
            raise ValueError(f"subgraph is {name!r}, and no preset of that name is installed (there are: {known})")
        if not preset["inputs"] or not preset["outputs"]:
            raise ValueError(f"the preset {name!r} exposes no input or no output: Map needs one of each")
        port_in, port_out = preset["inputs"][0]["name"], preset["outputs"][0]["name"]
        results: list[Any] = []
        for item in items:
            found = {} if context.should_stop() else run(name, {port_in: item})
            if port_out not in found:  # stopped, before the item or in it
                return {
                    "results": results, "count": len(results),
                    "__interrupted__": {"reason": "stopped", "done": len(results), "total": len(items)},
                }
            results.append(found[port_out])
        return {"results": results, "count": len(results)}


class Reduce(Node):
    """One value from many: numbers give a number, tensors are put together along
    ``dim`` (concat, stack) or element by element (sum, mean, min, max). A single
    tensor as items is reduced along ``dim``."""

    NODE_NAME = "Reduce"
    CATEGORY = "Data Flow"
    DESCRIPTION = "Sums up the items of a list."

    @classmethod
    def inputs(cls, params=None):
        return [Port("items", "LIST")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("result", "ANY"), Port("count", "SCALAR")]

    @classmethod
    def params(cls):
        return [
            Param("operation", "select", "mean", "What to do.", ["sum", "mean", "min", "max", "concat", "stack", "first", "last"]),
            Param("dim", "int", 0, "Along which dimension tensors are put together."),
        ]

    def execute(self, inputs, params):
        import torch

        operation, dim, items = params["operation"], int(params["dim"]), inputs["items"]
        if isinstance(items, torch.Tensor):
            items = list(items.unbind(dim)) if items.dim() else [items]
        items = list(items)
        if not items:
            raise ValueError("there are no items to reduce")
        if operation in ("first", "last"):
            return {"result": items[0 if operation == "first" else -1], "count": len(items)}
        if operation == "concat" and all(isinstance(item, (str, list, tuple)) for item in items):
            return {"result": _joined(items), "count": len(items)}
        numbers = all(isinstance(item, (int, float)) for item in items)
        try:
            tensors = [item if isinstance(item, torch.Tensor) else torch.as_tensor(item, dtype=_dtype(item)) for item in items]
        except (TypeError, ValueError, RuntimeError):
            kinds = ", ".join(sorted({type(item).__name__ for item in items}))
            raise ValueError(f"{operation} needs numbers or tensors and the items are {kinds}: choose first, last, or concat for texts and lists") from None
        if operation in ("concat", "stack"):
            if operation == "concat" and tensors[0].dim() > 0:
                result = torch.cat(tensors, dim)
            else:
                result = torch.stack(tensors, dim)
            return {"result": result, "count": len(items)}
        result = _elementwise(operation, tensors)
        return {"result": result.item() if numbers else result, "count": len(items)}


def _dtype(item):
    import torch

    # Python's own numbers are that precise.
    return torch.float64 if isinstance(item, float) else None


def _joined(items):
    if all(isinstance(item, str) for item in items):
        return "".join(items)
    joined: list[Any] = []
    for item in items:
        joined.extend([item] if isinstance(item, str) else item)
    return joined


def _elementwise(operation, tensors):
    import torch

    stacked = torch.stack(torch.broadcast_tensors(*tensors))
    if operation == "sum":
        return stacked.sum(0)
    if operation == "mean":
        return (stacked if stacked.is_floating_point() or stacked.is_complex() else stacked.double()).mean(0)
    if operation == "min":
        return stacked.amin(0)
    if operation == "max":
        return stacked.amax(0)
    raise ValueError(f"operation is {operation!r}: choose sum, mean, min, max, concat, stack, first or last")


class Switch(Node):
    """Passes on the input whose number the selector is; where nothing is wired to
    it, input_0."""

    NODE_NAME = "Switch"
    CATEGORY = "Data Flow"
    DESCRIPTION = "Chooses one of up to four inputs by number."

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("selector", "SCALAR", "cut to a whole number"), Port("input_0", "ANY"),
            *(Port(f"input_{number}", "ANY", optional=True) for number in (1, 2, 3)),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [Port("output", "ANY")]

    def execute(self, inputs, params):
        try:
            number = int(inputs["selector"])
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"selector is {inputs['selector']!r} and must be a number") from None
        chosen = inputs.get(f"input_{number}")
        return {"output": inputs["input_0"] if chosen is None else chosen}


NODES = [Map, Reduce, Switch]
