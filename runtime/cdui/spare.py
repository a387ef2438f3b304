"""A child that is started ahead of its run: torch is imported, and one line is
waited for that says what to become.

Nothing here may show in the run later: what torch's import leaves behind is
what the run's own import of it would have left, and CUDA is not touched, since
which cards there are is fixed with the environment alone.
"""
import json
import os
import sys


def wait(channel, own_folder, known):
    """Gets ready, says so, and gives the assign line and all bytes that came.

    It ends the process when there will be no run. known are the modules that
    any run finds loaded.
    """
    _, up, down, _, _ = channel
    paths = stamps()
    environ = dict(os.environ)
    import_torch(own_folder)
    modules = sorted({name.partition(".")[0] for name in set(sys.modules) - known})
    line = ready(modules, paths) + b"\n"
    while line:
        line = line[os.write(up, line) :]
    set_by_import = {k: v for k, v in os.environ.items() if environ.get(k) != v}
    chunks = [b""]
    while b"\n" not in chunks[-1]:
        chunks.append(os.read(down, 1 << 20))
        if not chunks[-1]:
            os._exit(0)
    received = b"".join(chunks)
    given = json.loads(received[: received.index(b"\n")])
    # In the C locale the interpreter itself sets this one.
    coerced = environ.get("LC_CTYPE")
    given["set_here"] = {**({"LC_CTYPE": coerced} if coerced else {}), **set_by_import}
    return given, received


def ready(modules, paths):
    """The one line that a spare sends."""
    fields = {"type": "ready", "modules": modules, "paths": paths}
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def import_torch(own_folder):
    """Imports torch as a script's own import would: this folder is nobody's module path.

    Something in the environment may make it do more than that; such a one is of no use.
    """
    hidden = bool(sys.path) and sys.path[0] == own_folder
    first = sys.path.pop(0) if hidden else ""
    try:
        import torch
    finally:
        if hidden:
            sys.path.insert(0, first)
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        sys.exit("importing torch initialises CUDA here, so it can't be done ahead")


def stamps():
    """What a change of the environment would show in: the interpreter, its
    configuration and the folders that modules are looked for in."""
    out = {}
    for path in [*sys.path, sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")]:
        if path:
            try:
                out[path] = os.stat(path).st_mtime_ns
            except OSError:
                out[path] = 0
    return out


def become(given):
    """Puts the process where the run would have been started."""
    variables = [entry.partition("=")[::2] for entry in given["env"]]
    os.environ.clear()
    for name, value in variables:
        if name != "CDUI_CHILD_FDS":
            os.environ[name] = value
    for name, value in given["set_here"].items():
        os.environ.setdefault(name, value)
    os.chdir(given["dir"])
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = given["argv"]
