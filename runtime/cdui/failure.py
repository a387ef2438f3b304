"""The words for a script that failed: the `finished` line of its run.

Read by child.py when there is something to tell, after the traceback was
shown. The shim trusts the exit status for the verdict and takes from here what
only the process itself knows.
"""
import json
import os
import sys

MAX_ERROR_CHARS = 2000

_OUT_OF_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "MPS backend out of memory",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def report(e, phase, path, send):
    """Sends the finished line for e, if e holds more than the exit status says."""
    line = finished(e, phase, path)
    if line is not None:
        send(line)


def finished(e, phase, path):
    """Builds the line, or gives None when the exit status tells it all."""
    if isinstance(e, KeyboardInterrupt):
        return None
    if isinstance(e, SystemExit):
        if e.code is None or isinstance(e.code, int):
            return None
        text = one_line(text_of(e.code))
    elif phase == "load":
        text = load_text(e, path)
    else:
        text = headline(e) + mend(e)
    fields = {
        "type": "finished",
        "status": "failed",
        "error": text,
        "error_type": type(e).__name__,
        "end_class": "out_of_memory" if out_of_memory(e) else "user_code",
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def text_of(value):
    try:
        return str(value)
    except Exception:
        return "<unprintable %s>" % type(value).__name__


def one_line(text):
    text = " ".join(text.split())
    if len(text) > MAX_ERROR_CHARS:
        text = text[: MAX_ERROR_CHARS - 3] + "..."
    return text


def headline(e):
    message = one_line(text_of(e))
    name = type(e).__name__
    return name + ": " + message if message else name


def load_text(e, path):
    name = os.path.basename(path)
    if isinstance(e, OSError):
        return "%s can't be read: %s" % (path, e.strerror or headline(e))
    return "%s can't be read as Python %d.%d: %s" % ((name,) + sys.version_info[:2] + (headline(e),))


def mend(e):
    """What to do about it: for a module that the interpreter lacks, which one was
    used and how to choose another; for memory that ran out, how much there was."""
    given = os.environ.get("CDUI_MEMORY_BUDGET_MIB")
    if given and out_of_memory(e) and not isinstance(e, MemoryError):
        return " (the run's memory budget is %s MiB on each card; give it more with --memory)" % given
    if not isinstance(e, ModuleNotFoundError) or not e.name:
        return ""
    package = e.name.partition(".")[0]
    if package in sys.modules:
        return ""  # the package is there, a part of it is not
    return " (ran with %s, Python %d.%d; choose an environment that has %s with --venv or --python, or install it there)" % (
        (sys.executable,) + sys.version_info[:2] + (package,)
    )


def out_of_memory(e):
    """Follows explicit causes, so that a wrapped error is still known."""
    for _ in range(8):
        if isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError":
            return True
        if isinstance(e, RuntimeError):
            text = text_of(e)
            if any(words in text for words in _OUT_OF_MEMORY):
                return True
        e = e.__cause__
        if e is None:
            return False
    return False
