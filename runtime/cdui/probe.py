"""Facts about the Python that runs this file, as one JSON object on stdout.

Written so that any Python since 2.7 parses and runs it: what is wrong with an
interpreter is data in "faults", and the exit status is 0. With --torch it
imports torch and asks for its devices, which takes seconds; without, it only
looks at what is installed.
"""
from __future__ import print_function

import sys

# The folder of this file, or the current one under -c, must not lend us a module.
if not getattr(sys.flags, "safe_path", getattr(sys.flags, "isolated", False)):
    del sys.path[0]

import json
import os
import platform
import re

OLDEST = (3, 9)


def installed_torch():
    """Version and CUDA version of an installed torch, read from its own files."""
    import importlib.util

    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return None, None
    version = cuda = None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as f:
            text = f.read()
        found = re.search(r"^__version__[^=\n]*=\s*['\"]([^'\"]+)", text, re.M)
        version = found.group(1) if found else None
        found = re.search(r"^cuda[^=\n]*=\s*['\"]([^'\"]+)", text, re.M)
        cuda = found.group(1) if found else None
    except (IOError, OSError):
        pass
    if version is None:
        import importlib.metadata

        try:
            version = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
    return version, cuda


def ask_torch(facts):
    import torch

    facts["torch"] = str(torch.__version__)
    facts["torch_cuda"] = torch.version.cuda
    facts["cuda"] = bool(torch.cuda.is_available())
    facts["cuda_devices"] = torch.cuda.device_count() if facts["cuda"] else 0
    mps = getattr(torch.backends, "mps", None)
    facts["mps"] = bool(mps is not None and mps.is_available())


def probe(with_torch):
    facts = {
        "executable": sys.executable,
        "version": ".".join(str(n) for n in sys.version_info[:3]),
        "implementation": platform.python_implementation(),
        "prefix": sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix),
        "machine": platform.machine(),
        "torch": None,
        "torch_cuda": None,
        "cuda": None,
        "cuda_devices": None,
        "mps": None,
        "faults": [],
    }

    def fault(code, text):
        facts["faults"].append({"code": code, "text": text})

    if sys.version_info[:2] < OLDEST:
        fault("python_too_old", "Python %s is too old; cdui needs %d.%d or newer" % ((facts["version"],) + OLDEST))
        return facts
    try:
        facts["torch"], facts["torch_cuda"] = installed_torch()
        if with_torch and facts["torch"] is not None:
            ask_torch(facts)
    except BaseException as e:
        text = " ".join(str(e).split())
        fault("torch_broken", "torch is installed but does not import: %s: %s" % (type(e).__name__, text[:300]))
    return facts


def main():
    # What an import prints must not mix with the answer.
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    answer = json.dumps(probe("--torch" in sys.argv[1:]), sort_keys=True) + "\n"
    os.write(out, answer.encode("ascii"))
    # torch takes a quarter of a second to tear down; there is nothing to save.
    os._exit(0)


if __name__ == "__main__":
    main()
