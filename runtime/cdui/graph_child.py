"""Entry point of a graph run: `python -I -B -u graph_child.py`, or the same with
`spare` to wait for one with torch imported.

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
    if sys.argv[1:] == ["spare"] and module.channel is not None:
        module.serve_later()
    module.take_host()
    return module


child = claim_pipes()

from cdui import failure, fingerprint, memory, provenance, recorded, registry, wire  # noqa: E402
from cdui.engine import Engine, Outcome, Settings  # noqa: E402
from cdui.reporter import Reporter  # noqa: E402
from cdui.summary import summarize  # noqa: E402

MAX_OUTPUT_ELEMENTS = 65_536


def settings_of(given: dict) -> Settings:
    """The engine's settings from the assign line; unknown options are for
    others."""
    options = {k: v for k, v in (given.get("options") or {}).items() if k in Settings._fields and v is not None}
    for name in ("run_id", "data_root", "search_dirs", "max_parallel", "api_inputs"):
        if given.get(name) is not None:
            options[name] = given[name]
    return Settings(**options)


def types_of(prepared: dict) -> set:
    wanted = {n["type"] for n in prepared["nodes"]}
    for preset in (prepared.get("presets") or {}).values():
        wanted.update(n["type"] for n in preset["nodes"])
    return wanted


def classes_for(prepared: dict, nodes_dir: str) -> dict:
    """The classes of the graph's types; the user's folder is read only when a
    type is not built in."""
    nodes, wanted = registry.builtin_nodes(), types_of(prepared)
    problems = []
    if wanted - set(nodes) and os.path.isdir(nodes_dir):
        user, problems = registry.user_nodes(nodes_dir)
        nodes = {**user, **nodes}
    for name in sorted(wanted - set(nodes)):
        unread = "".join(f"; {p['file']} could not be read: {p['error']}" for p in problems)
        raise LookupError(f"unknown node type {name!r}{unread}")
    return nodes


def execute(given: dict, reporter: Reporter) -> Outcome:
    prepared = given["graph"]
    try:
        nodes = classes_for(prepared, given.get("nodes_dir") or "")
    except LookupError as error:
        return Outcome("failed", str(error), "UnknownNodeType", "bad_graph")
    wire.channel.send(fingerprint.facts_line(child.host, with_numeric=False))
    if (given.get("options") or {}).get("provenance"):
        provenance.nodes({name: nodes[name] for name in types_of(prepared)}, wire.channel.send)
    try:
        return Engine(prepared, nodes, settings_of(given), reporter, wire.channel.cancelled).execute()
    except Exception as error:  # a fault of ours or of the interpreter, such as no torch
        import traceback

        traceback.print_exc()
        text = failure.headline(error) + failure.mend(error)
        end_class = "out_of_memory" if failure.out_of_memory(error) else "user_code"
        return Outcome("failed", text, type(error).__name__, end_class)


def checked(outcome: Outcome) -> Outcome:
    """The outcome with what GraphOutput nodes gave as JSON, or why it has none."""
    from cdui.outputs import plain_output

    sent = {}
    for name, value in outcome.api_outputs.items():
        try:
            sent[name] = plain_output(value, MAX_OUTPUT_ELEMENTS)
        except (OverflowError, TypeError) as error:
            kind = "OutputTooLarge" if isinstance(error, OverflowError) else "UnserializableOutput"
            return outcome._replace(status="failed", error=f'output "{name}": {error}', error_type=kind, end_class="user_code")
    return outcome._replace(api_outputs=sent)


def main() -> int:
    given = wire.channel.input()
    if not given or "graph" not in given:
        print("graph_child.py: no graph was assigned", file=sys.stderr)
        return 2
    memory.limit_now(wire.channel.send)
    reporter = Reporter(wire.channel.send)
    outcome = execute(given, reporter)
    if given.get("api_inputs") is not None and outcome.status == "succeeded":
        outcome = checked(outcome)
        if outcome.status == "succeeded":
            reporter.facts({"api_outputs": outcome.api_outputs})
    settings = fingerprint.numeric_line()
    if settings is not None:
        wire.channel.send(settings)
    reporter.finished(
        status=outcome.status, error=outcome.error, error_type=outcome.error_type,
        end_class=outcome.end_class, peak_memory=memory.peak(),
    )
    reporter.close()
    if outcome.captured and given.get("outputs_dir"):
        keep(outcome.captured, given["outputs_dir"])
    return 1 if outcome.status == "failed" else 0


def keep(captured: Mapping, folder: str) -> None:
    """Writes the captured outputs. The run has ended for everybody else, so a
    disk that is full no longer changes how."""
    try:
        recorded.write(captured, folder, summarize)
    except Exception as error:
        print(f"the recorded outputs were not kept: {failure.headline(error)}", file=sys.stderr)


if __name__ == "__main__":
    code = main()
    child.tell_imports()
    child.flush(sys.stdout)
    child.flush(sys.stderr)
    os._exit(code)
