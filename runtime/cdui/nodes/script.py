"""Category Utility: PythonScript, a node written in the graph."""

from __future__ import annotations

import builtins
import sys
import traceback
from typing import Any, Mapping

from cdui.node import PORT_TYPES, Node, Param, Port
from cdui.nodes import parsing

#: What a script may import.
MODULES = ("collections", "itertools", "json", "math", "numpy", "re", "statistics", "torch")

MAX_CODE_CHARS = 100_000
MAX_PRINT_CHARS = 64_000

#: The name that a script's lines bear in tracebacks.
_FILE = "<script>"

_LEFT_OUT = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")


class ScriptError(RuntimeError):
    """A script that failed; the text names its line."""


class Printed:
    """What a script prints, up to MAX_PRINT_CHARS."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_PRINT_CHARS
        self._cut = False

    def print(self, *values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False) -> None:
        """Takes the place of print in a script."""
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        self._cut = self._cut or len(text) > self._room
        self._parts.append(text[:self._room])
        self._room -= len(self._parts[-1])

    def text(self) -> str:
        """All that was printed; the end says where it was cut."""
        return "".join(self._parts) + ("\n... [cut]" if self._cut else "")


class PythonScript(Node):
    """Calls ``run(inputs, params)`` of a script. It gives a dict by output port, or
    one value, which goes to out1; ports that get nothing hold None."""

    NODE_NAME = "PythonScript"
    CATEGORY = "Utility"
    DESCRIPTION = "A few lines of Python."
    DETAILS = (
        "The code defines run(inputs, params) at its top level. inputs is a dict of the wired ports in1, in2 and so on; "
        "params holds the params of this node but the code. It may import collections, itertools, json, math, numpy, re, "
        "statistics and torch. What it prints is shown. This keeps graphs tidy; it is no protection against code that means harm."
    )
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return _ports("in", "input", params or {}, optional=True)

    @classmethod
    def outputs(cls, params=None):
        return _ports("out", "output", params or {}, optional=False)

    @classmethod
    def params(cls):
        return [
            Param("code", "code", 'def run(inputs, params):\n    return inputs.get("in1")\n', "Defines run(inputs, params)."),
            Param("input_ports", "int", 1, "How many inputs: in1, in2, ...", min_value=1, max_value=8),
            Param("output_ports", "int", 1, "How many outputs: out1, out2, ...", min_value=1, max_value=8),
            Param("input_types", "string", "", "Types of the inputs, with commas; ANY where none is given."),
            Param("output_types", "string", "", "Types of the outputs, with commas; ANY where none is given."),
        ]

    def execute(self, inputs, params):
        code, ports = str(params["code"]), [port.name for port in self.outputs(params)]
        if len(code) > MAX_CODE_CHARS:
            raise ValueError(f"code has {len(code)} characters and may have {MAX_CODE_CHARS}: shorten it")
        printed = Printed()
        try:
            found = _call(code, printed, dict(inputs), {name: value for name, value in params.items() if name != "code"})
        except BaseException:
            sys.stdout.write(printed.text())  # a node that failed has no log of its own
            raise
        result = _by_port(found, ports)
        text = printed.text().rstrip("\n")
        if text:
            result["__log__"] = text
        return result


def _ports(prefix: str, side: str, params: Mapping[str, Any], optional: bool) -> list[Port]:
    number = parsing.count(params.get(f"{side}_ports", 1), 1, 1, 8)
    types = [part.strip().upper() for part in str(params.get(f"{side}_types") or "").split(",")]
    types += [""] * (number - len(types))
    return [
        Port(f"{prefix}{n}", types[n - 1] if types[n - 1] in PORT_TYPES else "ANY", optional=optional)
        for n in range(1, number + 1)
    ]


def _call(code: str, printed: Printed, inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    """Runs the code and its function run; a failure becomes a ScriptError."""
    names: dict[str, Any] = {"__name__": "script", "__builtins__": _builtins(printed)}
    try:
        exec(compile(code, _FILE, "exec", dont_inherit=True), names)
        run = names.get("run")
        if callable(run):
            return run(inputs, params)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # a script may also raise SystemExit
        raise ScriptError(f"{_line(error)}: {type(error).__name__}: {error}") from error
    raise ScriptError("the script defines no function run(inputs, params)")


def _line(error: BaseException) -> str:
    """Which line of the script an error comes from: the last of its own lines."""
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return f"line {error.lineno} of the script"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    return f"line {lines[-1]} of the script" if lines else "the script"


def _builtins(printed: Printed) -> dict[str, Any]:
    def import_allowed(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level or name.partition(".")[0] not in MODULES:
            raise ImportError(f"a script can't import {name or 'relatively'}; it may import {', '.join(MODULES)}")
        return __import__(name, globals, locals, fromlist, level)

    allowed = {name: value for name, value in vars(builtins).items() if name not in _LEFT_OUT}
    return {**allowed, "print": printed.print, "__import__": import_allowed}


def _by_port(found: Any, ports: list[str]) -> dict[str, Any]:
    if not isinstance(found, dict) or not set(found) & set(ports):
        found = {"out1": found}
    unknown = [str(name) for name in found if name not in ports]
    if unknown:
        raise ScriptError(f"run gave {', '.join(unknown)}, and the outputs are {', '.join(ports)}: set output_ports or rename them")
    return {port: found.get(port) for port in ports}


NODES = [PythonScript]
