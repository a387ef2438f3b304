"""Where nodes read files and where they may write them."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator


def candidates(path: str, search_dirs) -> list[str]:
    """The places where ``path`` may lie: itself when absolute, else below each
    of the folders, in their order."""
    path = os.path.expanduser(path)
    if os.path.isabs(path):
        return [path]
    return [os.path.normpath(os.path.join(folder, path)) for folder in search_dirs]


def find(path: str, context, param: str = "path", folder: bool = False, own: str = "") -> str:
    """The existing file (or folder) that a param names, as an absolute path.
    ``own`` names a folder of the data folder where relative paths are tried
    first: what a saver wrote there, a loader finds under the same path."""
    what = "folder" if folder else "file"
    if not str(path).strip():
        raise ValueError(f"{param} is empty: name the {what} to read")
    own_folders = [os.path.join(context.data_root, own)] if own else []
    places = candidates(path, own_folders + list(context.search_dirs))
    for place in places:
        if os.path.isdir(place) if folder else os.path.isfile(place):
            return os.path.abspath(place)
    raise FileNotFoundError(
        f"{param}: there is no {what} {path!r}; looked for {', '.join(map(os.path.abspath, places))}. "
        f"Put it there, or give an absolute path"
    )


def target(path: str, context, folder: str, param: str = "path") -> str:
    """The absolute path to write to: relative paths lie in ``folder`` of the
    data folder, and every path must stay inside the data folder, symlinks
    followed. Missing folders above it are made."""
    if not str(path).strip() or str(path).endswith(("/", os.sep)):
        raise ValueError(f"{param} is {path!r}: give the name of a file to write")
    root = os.path.realpath(context.data_root)
    full = os.path.realpath(os.path.join(root, folder, path))
    if os.path.commonpath([root, full]) != root or full == root:
        raise ValueError(f"{param} {path!r} leads out of the data folder {root}: give a path below its {folder}/")
    if os.path.isdir(full):
        raise ValueError(f"{param} {path!r} is a folder: give the name of a file to write")
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Gives a name beside ``path`` to write to and renames it to ``path`` at the
    end, so that readers never see half a file. The suffix is kept."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{os.getpid()}-{name}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def file_name(text: str) -> str:
    """``text`` as a part of a file name: other characters become ``_``."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in text) or "_"
