"""What a node is: its ports, its params and the context that it executes in.

A node module imports nothing but the standard library and this file at its
top, so that definitions can be listed where torch is not installed; torch and
every other package are imported inside ``execute``.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, NamedTuple, Sequence

#: The types that a port can have. TENSOR and IMAGE carry torch tensors.
PORT_TYPES = (
    "TENSOR", "MODEL", "DATASET", "DATALOADER", "OPTIMIZER", "LOSS_FN", "SCALAR",
    "STRING", "IMAGE", "LIST", "ANY", "TRIGGER", "TRANSFORM",
)

#: The types that a param can have.
PARAM_TYPES = (
    "int", "float", "string", "bool", "select", "model_file", "image_file",
    "tensor_grid", "secret", "data_file", "code",
)


class Port(NamedTuple):
    """An input or output. ``media`` names how a string result is shown."""

    name: str
    data_type: str
    description: str = ""
    optional: bool = False
    media: str | None = None


class Param(NamedTuple):
    """A setting of a node. ``visible_when`` maps a sibling to the value (or
    values) for which the param means something; hidden, it takes its default."""

    name: str
    param_type: str
    default: Any
    description: str = ""
    options: Sequence[str] = ()
    min_value: float | None = None
    max_value: float | None = None
    visible_when: Mapping[str, Any] | None = None
    advanced: bool = False


class MissingPackage(RuntimeError):
    """A package that a node needs is not installed; the text says which."""


def need(module: str, package: str | None = None, why: str = "") -> Any:
    """Imports ``module`` or raises MissingPackage naming what to install."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package or module.split(".")[0]
        for_what = f" for {why}" if why else ""
        raise MissingPackage(
            f"the package {name} is needed{for_what} and can't be imported ({error}); "
            f"install it into the interpreter that runs this graph"
        ) from error


class Node:
    """One operation of a graph.

    Subclasses set the class fields and override ``inputs``, ``outputs``,
    ``params`` and ``execute``. ``execute`` may declare ``progress_callback``
    and ``context``; it is passed only what it declares.
    """

    NODE_NAME = ""
    CATEGORY = ""
    DESCRIPTION = ""
    DETAILS = ""
    REQUIRES_PACK: str | None = None

    #: False: the result is never served from a cache (owns weights, has effects).
    cacheable = True
    #: True: tensor inputs are moved to the node's device before execute.
    align_inputs = True

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        """The inputs; ``params`` matters only where they are dynamic."""
        return []

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        """The outputs; ``params`` matters only where they are dynamic."""
        return []

    @classmethod
    def params(cls) -> list[Param]:
        """The settings, in the order in which they are shown."""
        return []

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """Computes the outputs by port name. ``params`` holds every param.

        Reserved keys of the result: ``__log__`` a line of text, ``__steps__`` a
        list of step records, ``__interrupted__`` a dict that marks a partial
        result after a stop.
        """
        raise NotImplementedError(self.NODE_NAME)


class Context:
    """What a node may ask of the run that it executes in.

    This base serves tests and plain use: it records what it is told. The engine
    passes a subclass whose reports go into the run's log.
    """

    def __init__(
        self,
        *,
        run_id: str = "",
        node_id: str = "",
        device: str = "cpu",
        seed: int | None = None,
        deterministic: bool = False,
        verbose: bool = False,
        backward_mode: bool = False,
        weights_persistent: bool = False,
        graph_id: str = "",
        data_root: str = ".",
        search_dirs: Sequence[str] = (),
        presets: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_id, self.node_id, self.graph_id = run_id, node_id, graph_id
        self.device, self.seed, self.deterministic = device, seed, deterministic
        self.verbose, self.backward_mode = verbose, backward_mode
        self.weights_persistent = weights_persistent
        #: The data folder: models/, images/, data/ lie in it.
        self.data_root = data_root
        #: Folders that relative paths of files to read are tried in, in order.
        self.search_dirs = list(search_dirs) or [data_root]
        #: Prepared installed presets by name, for nodes that apply one (Map).
        self.presets = dict(presets or {})
        self.metrics: list[tuple[str, float, int | None]] = []
        self.artifacts: list[tuple[str, str, dict[str, Any]]] = []
        self.warnings: list[tuple[str, dict[str, Any]]] = []

    def should_stop(self) -> bool:
        """True once the run was asked to stop; long loops return what they have."""
        return False

    def derived_seed(self, label: str) -> int | None:
        """The seed that belongs to ``label`` in a seeded run, else None.

        First 8 bytes of BLAKE2b(``<seed>`` NUL ``<label>``), big-endian, modulo
        2**32 (docs/graphs.md, seeds).
        """
        if self.seed is None:
            return None
        return derive_seed(self.seed, label)

    def generator(self, label: str) -> Any:
        """A CPU torch.Generator seeded for ``label``; None in an unseeded run."""
        seed = self.derived_seed(label)
        if seed is None:
            return None
        import torch

        return torch.Generator().manual_seed(seed)

    def log_metric(self, name: str, value: float, step: int | None = None) -> None:
        """Adds a point to a series of this node."""
        self.metrics.append((name, value, step))

    def can_record_artifacts(self) -> bool:
        """Whether log_artifact keeps anything."""
        return True

    def log_artifact(self, kind: str, path: str, meta: Mapping[str, Any] | None = None) -> None:
        """Registers a file that the node wrote."""
        self.artifacts.append((kind, path, dict(meta or {})))

    def warn(self, kind: str, **detail: Any) -> None:
        """Adds a run_warning of this kind."""
        self.warnings.append((kind, detail))


def derive_seed(seed: int, label: str) -> int:
    """The child seed of ``label``: see Context.derived_seed."""
    import hashlib

    digest = hashlib.blake2b(f"{seed}\0{label}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 2**32


def call(node: Node, inputs: dict[str, Any], params: dict[str, Any],
         progress: Callable[[dict[str, Any]], None], context: Context) -> dict[str, Any]:
    """Calls ``node.execute`` with the extras that it declares."""
    accepted = inspect.signature(node.execute).parameters
    extras: dict[str, Any] = {}
    if "progress_callback" in accepted:
        extras["progress_callback"] = progress
    if "context" in accepted:
        extras["context"] = context
    return node.execute(inputs, params, **extras)


def fill_params(node: type[Node], given: Mapping[str, Any]) -> dict[str, Any]:
    """All params of a node: what the graph gives, else the default; a param that
    its ``visible_when`` hides takes its default."""
    defs = {p.name: p for p in node.params()}
    out = {name: given.get(name, p.default) for name, p in defs.items()}
    for name, p in defs.items():
        for sibling, wanted in (p.visible_when or {}).items():
            values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
            if str(out.get(sibling)) not in [str(v) for v in values]:
                out[name] = p.default
    for name, value in given.items():
        out.setdefault(name, value)
    return out
