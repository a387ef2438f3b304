"""A script that a spare runs can't tell that it wasn't started for it."""
import json
import os
import textwrap
from pathlib import Path

import pytest

from conftest import CHILD, PYTHON, ROOT
from test_child import SAME
from test_graph_child import CHILD as GRAPH_CHILD, SUM

# What a script can see of where it runs, but for what differs from run to run.
LOOK = """
    import os, sys, threading
    print(__name__, __file__, __spec__, sys.argv, sys.orig_argv if hasattr(sys, 'orig_argv') else '')
    print(sys.path, sys.flags, sys.warnoptions, sys.executable, sys.prefix)
    print(os.getcwd(), dict(os.environ), os.environ['LR'])
    print([t.name for t in threading.enumerate()], threading.current_thread() is threading.main_thread(), os.getpgid(0) == os.getpid())
    print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:5], os.read(0, 1), sys.stdout.line_buffering, sys.stdout.encoding)
    import torch
    print(torch.__file__, torch.imported_with)
    print('last words', file=sys.stderr)
    sys.exit(7)
    """

FAKE_TORCH = """
import sys, os
imported_with = (os.environ.get("OMP_NUM_THREADS"), sys.path[0].endswith("cdui"))
import decimal
"""


@pytest.fixture
def torch(shim):
    """A torch that is imported in no time; the folder that it lies in."""
    folder = shim.folder / "site"
    # What Python keeps of what it has compiled would change the folder later.
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "torch.py").write_text(FAKE_TORCH)
    shim.env = {"PYTHONPATH": "%s:%s" % (folder, ROOT), "OMP_NUM_THREADS": "3"}
    return folder


def warm(shim, source, *args, name="train.py", late=None, cancel=False):
    """Runs a script from a spare: its own variables come with the assignment."""
    path = shim.folder / name
    path.write_text(textwrap.dedent(source))
    argv = [PYTHON, "-u", str(CHILD), "script", str(path), *args]
    return from_spare(shim, [PYTHON, "-u", str(CHILD), "spare"], argv, late, cancel)


def from_spare(shim, start, argv, late=None, cancel=False, given=None):
    env = {"PATH": os.environ["PATH"], "HOME": str(shim.folder), "PYTHONPATH": str(ROOT), "CDUI_RUN_ID": "r",
           "CDUI_REPORT": str(shim.report), **shim.env, **(late or {})}
    # As the shim builds it: in this order, and with the names of its own pipes.
    order = ["PATH", "HOME", "PYTHONPATH", "CDUI_RUN_ID", "CDUI_REPORT", "CDUI_CHILD_FDS"]
    env["CDUI_CHILD_FDS"] = "3,4"
    names = order + [name for name in env if name not in order]
    line = {"type": "assign", "run_id": "r", "input": given or {"lr": 0.5}, "argv": argv, "dir": str(shim.folder)}
    line["env"] = ["%s=%s" % (name, env[name]) for name in names]
    shim.down = json.dumps(line).encode() + b"\n"
    if cancel:
        shim.down += b'{"type":"cancel","grace_ms":1000}\n'
    return shim.run(start, cwd="/")


def cold(shim, source, *args, late=None):
    before = dict(shim.env)
    shim.env.update(late or {})
    try:
        return shim.script(source, *args)
    finally:
        shim.env = before


def test_sees_what_it_would_have_seen(shim, torch):
    """Proves K-04, R-05."""
    late = {"LR": "3", "EMPTY": "", "ODD": "a=b \u00e9"}
    want = cold(shim, LOOK, "a", "b c", late=late)
    got = warm(shim, LOOK, "a", "b c", late=late)
    assert got.out == want.out
    assert got.err == want.err == "last words\n"
    assert got.code == want.code == 7
    assert "decimal" in got.of("ready")[0]["modules"]
    assert got.of("imported") == want.of("imported") == [{"type": "imported", "modules": ["torch"]}]


@pytest.mark.parametrize("source", SAME.values(), ids=SAME.keys())
def test_ends_as_it_would_have_ended(shim, torch, source):
    """Proves K-04, R-05."""
    want = shim.script(source, "a", "b c")
    got = warm(shim, source, "a", "b c")
    assert (got.code, got.out, got.err) == (want.code, want.out, want.err)
    assert comparable(got, "ready", "imported") == comparable(want)


def test_reports_and_is_told(shim, torch):
    """Proves K-04, W-07: what came with the assignment, or right after it, is there."""
    source = "import cdui, os\nprint(cdui.params(), cdui.should_stop(), cdui.device())\ncdui.log({'loss': 1})\nprint(os.fork() and os.wait()[1])"
    got = warm(shim, source, late={"CDUI_DEVICE": "cpu"}, cancel=True)
    assert got.out == "{'lr': 0.5} True cpu\n0\n0\n" or got.out.startswith("{'lr': 0.5} True cpu\n")
    assert [line["type"] for line in comparable(got)] == ["ready", "hello", "metrics", "imported", "facts"]
    assert got.code == 0


def test_a_spare_that_nobody_needs_ends(shim, torch):
    """Proves K-04: the shim's end of the pipe is all that holds it."""
    shim.down = b""
    got = shim.run([PYTHON, "-u", str(CHILD), "spare"], after_start=lambda process, down_w: os.dup2(os.open(os.devnull, os.O_RDONLY), down_w))
    assert (got.code, got.out, got.err) == (0, "", "")
    assert [line["type"] for line in got.lines] == ["ready"]


def test_a_torch_that_fails_makes_no_spare(shim, torch):
    (torch / "torch.py").write_text("raise ImportError('no cuda library')")
    got = warm(shim, "print('ran')")
    assert got.code != 0 and got.out == "" and "no cuda library" in got.err
    assert got.lines == []


def test_a_torch_that_touches_the_card_makes_no_spare(shim, torch):
    """Proves K-04: CUDA is never initialised before the assignment."""
    (torch / "torch.py").write_text("class cuda:\n    is_initialized = staticmethod(lambda: True)")
    got = warm(shim, "print('ran')")
    assert got.code == 1 and got.out == "" and "initialises CUDA" in got.err
    assert got.lines == []


def test_what_the_import_sets_stays(shim, torch):
    """As it is after a script's own import; what the run brings itself wins."""
    (torch / "torch.py").write_text("import os\nos.environ.setdefault('KINETO_X', '1')\nos.environ['LR'] = '9'")
    got = warm(shim, "import os\nprint(os.environ['KINETO_X'], os.environ['LR'])", late={"LR": "3"})
    assert got.out == "1 3\n"


def test_says_what_a_change_of_the_environment_shows_in(shim, torch):
    """Proves K-04."""
    paths = warm(shim, "pass").of("ready")[0]["paths"]
    assert paths[str(torch)] == torch.stat().st_mtime_ns
    assert PYTHON in paths or os.path.realpath(PYTHON) in {os.path.realpath(p) for p in paths}


def test_modules_of_this_folder_are_nobodys(shim, torch):
    """The entry's own folder holds modules whose names others may import."""
    assert (Path(CHILD).parent / "lines.py").exists()
    (torch / "torch.py").write_text("try:\n    import lines\nexcept ImportError:\n    pass\nelse:\n    raise AssertionError\nimported_with = 0")
    assert warm(shim, "print('ran')").out == "ran\n"


def test_a_graph_is_served_too(shim):
    """Proves K-04. It is isolated as ever: the torch is the interpreter's own."""
    given = {"run_id": "r", "graph": SUM, "options": {}, "data_root": str(shim.folder), "search_dirs": [], "nodes_dir": "",
             "outputs_dir": str(shim.folder / "outputs"), "api_inputs": {"x": 4}, "max_parallel": 4}
    start = [PYTHON, "-I", "-B", "-u", str(GRAPH_CHILD), "spare"]
    want = from_spare(shim, start[:-1], start[:-1], given=given)
    got = from_spare(shim, start, start[:-1], given=given)
    assert (got.code, got.out, got.err) == (want.code, want.out, want.err)
    assert comparable(got, "ready", "imported") == comparable(want, "imported")
    assert "torch" in got.of("ready")[0]["modules"]


def comparable(ended, *drop):
    """The lines but for what a loaded torch adds: its memory and its settings."""
    out = []
    for line in ended.lines:
        line = {k: v for k, v in line.items() if k != "peak_memory"}
        if line["type"] == "facts":
            line["facts"] = {k: v for k, v in line["facts"].items() if k != "numeric"}
        if line["type"] not in drop and line not in ({"type": "finished"}, {"type": "facts", "facts": {}}):
            out.append(line)
    return out
