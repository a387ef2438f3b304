"""Control: where a graph begins."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Port


class Start(Node):
    NODE_NAME = "Start"
    CATEGORY = "Control"
    DESCRIPTION = "Marks the nodes that its trigger edges lead to as the graph's entry points."
    DETAILS = "A trigger carries no value and orders nothing."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("trigger", "TRIGGER", "leads to the entry points")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {}


NODES = [Start]
