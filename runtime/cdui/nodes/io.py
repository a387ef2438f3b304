"""IO: text files, and the inputs and outputs of a graph that is called."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes import files, images

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
INPUT_TYPES = ("string", "number", "integer", "boolean", "json", "image")


class FileReader(Node):
    NODE_NAME = "FileReader"
    CATEGORY = "IO"
    DESCRIPTION = "Reads a text file; of a CSV file also its numbers."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("text", "STRING", "the text of the file"),
            Port("tensor", "TENSOR", "csv: (rows, numeric columns) float32; text: empty"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "string", "", "the file"),
            Param("mode", "select", "text", "text alone, or numbers too", options=("text", "csv")),
            Param("encoding", "string", "utf-8", "encoding of the text"),
            Param("csv_header", "bool", True, "whether the first row names the columns", visible_when={"mode": "csv"}),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        path, encoding = files.find(params["path"], context), params["encoding"] or "utf-8"
        try:
            with open(path, encoding=encoding, newline="") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not {encoding} text ({error.reason} at byte {error.start}); set param 'encoding'") from None
        except LookupError:
            raise ValueError(f"param 'encoding' is {encoding!r}, which Python doesn't know; try utf-8 or latin-1") from None
        numbers = numeric_columns(text, path, bool(params["csv_header"])) if params["mode"] == "csv" else []
        return {"text": text, "tensor": torch.tensor(numbers, dtype=torch.float32).to(context.device)}


def numeric_columns(text: str, path: str, header: bool) -> list[list[float]]:
    """The rows of a CSV text with the columns that hold numbers only."""
    rows = [row for row in csv.reader(io.StringIO(text.lstrip("\ufeff"))) if row][1 if header else 0:]
    if not rows:
        raise ValueError(f"{path} has no rows of data; param 'csv_header' is {header}")
    for number, row in enumerate(rows, start=2 if header else 1):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {number} of {path} has {len(row)} columns and the first {len(rows[0])}; mend that row")
    columns = [numbers for column in zip(*rows) if (numbers := as_numbers(column)) is not None]
    if not columns:
        raise ValueError(f"{path} has no column that holds numbers only; use mode text")
    return [list(row) for row in zip(*columns)]


def as_numbers(column: tuple[str, ...]) -> list[float] | None:
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return None


class GraphInput(Node):
    NODE_NAME = "GraphInput"
    CATEGORY = "IO"
    DESCRIPTION = "A value that the caller of the graph gives; in a plain run it is the default."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("value", "ANY", "the value, of the chosen type")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("name", "string", "input", "name of the input: a letter or _, then up to 63 letters, digits or _"),
            Param("type", "select", "string", "type of the value", options=INPUT_TYPES),
            Param("required", "bool", True, "whether a caller must give it"),
            Param("default", "string", "", "the value when no caller gives one"),
            Param("description", "string", "", "what it means, for callers"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        name = check_name(params["name"])
        given = getattr(context, "api_inputs", None) or {}
        value = given[name] if name in given else params["default"]
        found = coerce(value, params["type"], name)
        return {"value": found.to(context.device) if params["type"] == "image" else found}


class GraphOutput(Node):
    NODE_NAME = "GraphOutput"
    CATEGORY = "IO"
    DESCRIPTION = "A value that the caller of the graph gets."
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("value", "ANY", "the value")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("name", "string", "output", "name of the output: a letter or _, then up to 63 letters, digits or _"),
            Param("description", "string", "", "what it means, for callers"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        check_name(params["name"])
        return {"value": inputs["value"]}


def check_name(name: Any) -> str:
    if not NAME.fullmatch(str(name)):
        raise ValueError(f"param 'name' is {name!r}; start with a letter or _ and go on with up to 63 letters, digits or _")
    return str(name)


def coerce(value: Any, kind: str, name: str) -> Any:
    """A raw JSON value, or the text of a default, as a type of GraphInput."""
    def refuse(wanted: str) -> ValueError:
        return ValueError(f"input {name!r} is {value!r}; wanted is {wanted}")

    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if kind in ("number", "integer"):
        if isinstance(value, (bool, list, dict)) or value is None:
            raise refuse(f"a {kind}")
        try:
            number = float(value)
            if kind == "number":
                return number
            whole = value if isinstance(value, int) else int(value) if isinstance(value, str) else int(number)
        except (ValueError, OverflowError):
            raise refuse(f"a {kind}") from None
        if whole != number and not isinstance(value, (int, str)):
            raise refuse("an integer")
        return whole
    if kind == "boolean":
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
        word = str(value).strip().lower()
        if isinstance(value, (list, dict)) or word not in known:
            raise refuse("true or false")
        return known[word]
    if kind == "json":
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value.strip() else None
        except ValueError as error:
            raise refuse(f"JSON ({error})") from None
    if kind == "image":
        return image_from(value, refuse)
    raise ValueError(f"param 'type' is {kind!r}; choose one of {', '.join(INPUT_TYPES)}")


def image_from(value: Any, refuse: Any) -> Any:
    """The picture ``(3, H, W)`` in a base64 text, with or without data: prefix."""
    if not isinstance(value, str) or not value:
        raise refuse("an image as base64 text")
    try:
        data = base64.b64decode(value.partition(",")[2] if value.startswith("data:") else value, validate=True)
    except ValueError:
        raise ValueError("the image is not base64 text; encode the bytes of its file as base64") from None
    return images.read(io.BytesIO(data), "RGB", 0)


NODES = [FileReader, GraphInput, GraphOutput]
