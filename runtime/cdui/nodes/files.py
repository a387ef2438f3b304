"""Finds the files that nodes read and places the files that they write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Iterator, Sequence

from cdui.node import Context


def find(path: str, context: Context, param: str = "path", folders: Sequence[str] = ()) -> str:
    """The absolute path of an existing file or folder.

    An absolute path is taken as it is. A relative one is tried in each of
    ``folders`` of the data folder, then in the context's search folders.
    """
    path = str(path or "").strip()
    if not path:
        raise ValueError(f"param {param!r} is empty; give the path of a file")
    if os.path.isabs(path):
        tried = [path]
    else:
        roots = [os.path.join(context.data_root, f) for f in folders] + list(context.search_dirs)
        tried = list(dict.fromkeys(os.path.abspath(os.path.join(root, path)) for root in roots))
    for candidate in tried:
        if os.path.exists(candidate):
            return candidate
    raise FileNotFoundError(f"{path} was not found; looked for {', '.join(tried)}. Put it there or set param {param!r}")


def target(path: str, context: Context, folder: str, param: str = "path") -> str:
    """Where a file may be written: under ``folder`` of the data folder, or, for
    an absolute path, anywhere within the data folder. Makes its parent folder."""
    path = str(path or "").strip()
    if not path or path.endswith(("/", os.sep)):
        raise ValueError(f"param {param!r} is {path!r}; give the name of a file to write")
    root = os.path.realpath(context.data_root)
    place = os.path.realpath(os.path.join(root, folder, path))
    if ".." in path.replace(os.sep, "/").split("/") or not place.startswith(root.rstrip(os.sep) + os.sep):
        raise ValueError(f"param {param!r} is {path!r}, which leads out of the data folder {root}; give a path within its {folder}/")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    return place


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """A temporary name beside ``path`` that takes its place when all went well,
    so that a reader never sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".writing-", suffix=os.path.splitext(path)[1])
    os.close(handle)
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
