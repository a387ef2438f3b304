"""Records of what a run's nodes are made of, one for each node type or script.
Read only where the run asks for them; without the package, too."""
import hashlib
import json
import os

#: What of a source is kept; its hash is always of the whole file.
MAX_CHARS = 256 * 1024


def line(**record):
    fields = {"type": "facts", "facts": {"node_source": record}}
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def record(name, kind, path, text=None):
    """The line for a source that stands in a file; text is the part that matters."""
    try:
        with open(path, "rb") as f:
            raw = f.read()
    except (OSError, TypeError) as error:
        return line(name=name, kind=kind, file=path, sha256=None, source=None, error=str(error))
    whole = raw.decode("utf-8", "replace") if text is None else text
    fields = {"name": name, "kind": kind, "file": path, "sha256": hashlib.sha256(raw).hexdigest(), "source": whole[:MAX_CHARS]}
    if len(whole) > MAX_CHARS:
        fields["cut"] = True
    return line(**fields)


def script(path, send):
    """The script, before it runs and may change its own file."""
    send(record("Script", "script", os.path.abspath(path)))


def nodes(classes, send):
    """The node classes of a graph: of the built-in ones the class, of a user's
    the whole file, since its other functions count too."""
    import inspect

    for name in sorted(classes):
        kind = classes[name]
        builtin = kind.__module__.startswith("cdui.")
        try:
            path = inspect.getfile(kind)
            text = inspect.getsource(kind) if builtin else None
        except (OSError, TypeError):
            path, text = None, None
        send(record(name, "builtin" if builtin else "user", path, text))
