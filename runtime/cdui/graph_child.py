"""Entry point of a graph run: `python -I -B -u graph_child.py`.

It reads the prepared graph from the assign line, executes it and ends the
process: 0 when the graph succeeded or was stopped, else 1. What happened goes
up in lines; standard output is the nodes' own.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)


def claim_pipes():
    """Takes the pipes to the shim before the package is imported, whose import
    says hello over them. Gives the module that holds them."""
    loader = SourceFileLoader("cdui.child", os.path.join(HERE, "child.py"))
    module = type(sys)(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    sys.modules[loader.name] = module
    module.claim()
    return module


child = claim_pipes()

from cdui import devices, failure, recorded, registry, wire  # noqa: E402
from cdui.engine import Engine, Outcome, Settings  # noqa: E402
from cdui.reporter import Reporter  # noqa: E402
from cdui.summary import summarize  # noqa: E402

MAX_OUTPUT_ELEMENTS = 65_536


def settings_of(given: dict) -> Settings:
    """The engine's settings from the assign line; unknown options are for
    others."""
    options = {k: v for k, v in (given.get("options") or {}).items() if k in Settings._fields and v is not None}
    options["search_dirs"] = tuple(given.get("search_dirs") or ())
    for name in ("run_id", "data_root", "max_parallel", "api_inputs"):
        if given.get(name) is not None:
            options[name] = given[name]
    return Settings(**options)


def classes_for(prepared: dict, nodes_dir: str) -> dict:
    """The classes of the graph's types; the user's folder is read only when a
    type is not built in."""
    nodes = registry.builtin_nodes()
    wanted = {n["type"] for n in prepared["nodes"]}
    for preset in (prepared.get("presets") or {}).values():
        wanted.update(n["type"] for n in preset["nodes"])
    missing = wanted - set(nodes)
    if missing and nodes_dir:
        user, problems = registry.user_nodes(nodes_dir)
        nodes.update({name: node for name, node in user.items() if name not in nodes})
        missing -= set(user)
        if missing and problems:
            raise LookupError(f"{problems[0]['file']}: {problems[0]['error']}")
    if missing:
        raise LookupError(f"no node type {sorted(missing)[0]!r} in this version")
    return nodes


def execute(given: dict, reporter: Reporter) -> Outcome:
    prepared = given["graph"]
    try:
        nodes = classes_for(prepared, given.get("nodes_dir") or "")
    except LookupError as error:
        return Outcome("failed", str(error), "UnknownNodeType", "bad_graph")
    try:
        return Engine(prepared, nodes, settings_of(given), reporter, wire.channel.cancelled).execute()
    except Exception as error:  # a fault of ours or of the machine, such as no torch
        import traceback

        traceback.print_exc()
        text = failure.headline(error) + failure.mend(error)
        end_class = "out_of_memory" if failure.out_of_memory(error) else "user_code"
        return Outcome("failed", text, type(error).__name__, end_class)


def api_outputs(outcome: Outcome) -> Outcome:
    """Checks that what GraphOutput nodes gave can be sent as JSON."""
    from cdui.outputs import plain_output

    sent = {}
    for name, value in outcome.api_outputs.items():
        try:
            sent[name] = plain_output(value, MAX_OUTPUT_ELEMENTS)
        except OverflowError as error:
            return outcome._replace(status="failed", error=f'output "{name}": {error}', error_type="OutputTooLarge", end_class="user_code")
        except TypeError as error:
            return outcome._replace(status="failed", error=f'output "{name}": {error}', error_type="UnserializableOutput", end_class="user_code")
    return outcome._replace(api_outputs=sent)


def main() -> int:
    given = wire.channel.input()
    if not given or "graph" not in given:
        print("graph_child.py: no graph was assigned", file=sys.stderr)
        return 2
    reporter = Reporter(wire.channel.send)
    outcome = execute(given, reporter)
    if outcome.api_outputs and outcome.status == "succeeded":
        if given.get("api_inputs") is not None:
            outcome = api_outputs(outcome)
            if outcome.status == "succeeded":
                reporter.facts({"api_outputs": outcome.api_outputs})
    reporter.finished(
        status=outcome.status, error=outcome.error, error_type=outcome.error_type,
        end_class=outcome.end_class, peak_memory=devices.peak_memory(),
    )
    reporter.close()
    if outcome.captured and given.get("outputs_dir"):
        recorded.write(outcome.captured, given["outputs_dir"], summarize)
    return 1 if outcome.status == "failed" else 0


if __name__ == "__main__":
    code = main()
    child.flush(sys.stdout)
    child.flush(sys.stderr)
    os._exit(code)
