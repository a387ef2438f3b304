"""The run's memory budget, to which torch's allocator is limited on each card,
and the most memory that was held.

Read without the package by child.py, so it imports nothing of it. torch is
imported for a graph with a budget alone; CUDA is initialised for it at no other
time than the graph would, and never for a script.
"""
import os
import sys

MIB = 1 << 20
BUDGET = "CDUI_MEMORY_BUDGET_MIB"


def budget():
    """MiB that the run may hold on each of its cards; 0 without a budget."""
    value = os.environ.get(BUDGET, "")
    return int(value) if value.isdecimal() else 0


def limit(torch):
    """Limits the allocator on each card that is seen; gives the MiB by card."""
    mib, limits = budget(), {}
    for i in range(torch.cuda.device_count()):
        total = torch.cuda.get_device_properties(i).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, mib * MIB / total), i)
        limits["cuda:%d" % i] = min(mib, total // MIB)
    return limits


def limit_now(send):
    """For a graph, before anything of it: limits and says so. What keeps torch
    from working is the graph's to find, if it needs torch at all."""
    if not budget():
        return
    limits = None
    try:
        import torch

        if torch.cuda.is_available():
            limits = limit(torch)
    except Exception as error:
        send(line(type="warning", kind="memory_limit_failed", meta={"error": "%s: %s" % (type(error).__name__, error)}))
    send(line(type="memory_limit", memory_limit=limits or None))


def limit_later(send):
    """For a script: limits as soon as torch initialises CUDA, if it ever does."""
    if not budget():
        return
    torch = sys.modules.get("torch")
    if torch is None:
        sys.meta_path.insert(0, _Awaiting(send))
    else:
        _at_first_use(torch, send)


def _at_first_use(torch, send):
    def apply():
        try:
            send(line(type="memory_limit", memory_limit=limit(torch) or None))
        except Exception as error:  # it would make CUDA's initialisation fail
            send(line(type="warning", kind="memory_limit_failed", meta={"error": "%s: %s" % (type(error).__name__, error)}))

    try:
        # Calls it at the end of the initialisation, or now if that is over.
        torch.cuda._lazy_call(apply)
    except Exception as error:
        send(line(type="warning", kind="memory_limit_failed", meta={"error": "%s: %s" % (type(error).__name__, error)}))


class _Awaiting:
    """A finder that sees torch being imported and finds nothing itself."""

    def __init__(self, send):
        self._send = send

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        except BaseException:
            sys.meta_path.insert(0, self)
            raise
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader:
    """Loads torch by its own loader, and then looks at it."""

    def __init__(self, loader, awaiting):
        self._loader, self._awaiting = loader, awaiting

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            sys.meta_path.insert(0, self._awaiting)  # it may be tried again
            raise
        _at_first_use(module, self._awaiting._send)


def peak(exact=True):
    """The most memory held: per card by torch's allocator, for the cpu by the
    process's resident size. A card's is exact where the allocator of this
    process is all that the run has on it."""
    import resource

    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    out = {"cpu": {"mib": resident * unit // MIB, "exact": False}}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        for i in range(torch.cuda.device_count()):
            held = torch.cuda.max_memory_reserved(i) // MIB
            if held:
                out["cuda:%d" % i] = {"mib": held, "exact": exact}
    return out


def tell_peak(send):
    """At the end of a script that used torch. The shim keeps what else it was told."""
    send(line(type="finished", peak_memory=peak(exact=alone())))


def alone():
    """Whether this process had no children, which may have used a card too."""
    import resource

    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def line(**fields):
    import json

    return json.dumps(fields, separators=(",", ":")).encode("ascii")
