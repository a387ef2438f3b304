"""What this process ran with: the facts that are a run's fingerprint.

Read without the package by child.py when the script is done, in every run: it
imports nothing that the interpreter has not loaded anyway, and torch never. The
machine's own facts come from the shim's host, as JSON.
"""
import os
import sys

try:
    from _json import encode_basestring_ascii as quoted
except ImportError:  # an interpreter without the C module
    from json.encoder import py_encode_basestring_ascii as quoted

HOST = "CDUI_HOST"
MAX_PACKAGES = 2000


def facts_line(host, with_numeric):
    """The line that carries the document, and numeric settings if asked for."""
    facts = '"fingerprint":{"host":%s,"python":%s,"packages":%s}' % (host or "null", encode(python()), encode(packages()))
    if with_numeric:
        facts += ',"numeric":' + encode(numeric())
    return ('{"type":"facts","facts":{%s}}' % facts).encode("ascii")


def numeric_line():
    """The line of the numeric settings alone; None without torch."""
    settings = numeric()
    return None if settings is None else ('{"type":"facts","facts":{"numeric":%s}}' % encode(settings)).encode("ascii")


def python():
    return {
        "version": ".".join(str(n) for n in sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "path": sys.executable,
        "prefix": sys.prefix,
    }


def packages():
    """What is installed, as name==version, from the names of folders alone."""
    found = {}
    for folder in sys.path:
        if not folder.endswith("-packages"):
            continue
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            stem, _, suffix = name.rpartition(".")
            if suffix in ("dist-info", "egg-info"):
                project, _, version = stem.partition("-")
                # What stands first in the path is what is imported.
                found.setdefault(project.replace("_", "-").lower(), version.partition("-")[0])
    return ["%s==%s" % pair for pair in sorted(found.items())][:MAX_PACKAGES]


def numeric():
    """The settings of a loaded torch on which results depend; None without one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    asked = {
        "torch": lambda: str(torch.__version__),
        "cuda": lambda: torch.version.cuda,
        "dtype": lambda: str(torch.get_default_dtype()),
        "threads": lambda: torch.get_num_threads(),
        "deterministic": lambda: torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": lambda: torch.get_float32_matmul_precision(),
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "cublas_workspace": lambda: os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    }
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except Exception:
            found[name] = None  # an older torch
    return found


def encode(value):
    """JSON of what is built here, without the module json and all that it loads."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{%s}" % ",".join(quoted(k) + ":" + encode(v) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ",".join(map(encode, value))
    return quoted(str(value))
