"""A script under child.py ends as it would under Python itself, and says why."""
import os
import signal
import subprocess
import textwrap

import pytest

from conftest import CHILD, PYTHON


def plain(shim, source, *args):
    """The same script under Python alone."""
    path = shim.folder / "train.py"
    path.write_text(textwrap.dedent(source))
    return subprocess.run([PYTHON, "-u", str(path), *args], cwd=shim.folder, capture_output=True, text=True)


SAME = {
    "ok": "print('done')",
    "exit code": "import sys; sys.exit(3)",
    "exit none": "import sys; sys.exit()",
    "exit string": "import sys; sys.exit('no data here')",
    "exit bool": "raise SystemExit(True)",
    "exit negative": "raise SystemExit(-1)",
    "exit beyond a byte": "raise SystemExit(258)",
    "exit tuple": "raise SystemExit(1, 2)",
    "raise": "def f():\n    raise ValueError('bad')\nf()",
    "raise chained": """
        def f():
            try:
                {}['a']
            except KeyError as e:
                raise RuntimeError('outer') from e
        f()
        """,
    "raise in context": "try:\n    1/0\nexcept ZeroDivisionError:\n    undefined",
    "raise own class": "class Mine(Exception): pass\nraise Mine('x')",
    "syntax": "x = = 1",
    "syntax in function": "def f(:\n  pass",
    "interrupted": "raise KeyboardInterrupt",
    "os._exit": "import os; print('x'); os._exit(9)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "hook": "import sys\nsys.excepthook = lambda t, e, tb: print('hooked', t.__name__, e, tb.tb_lineno)\n1/0",
    "hook exits": "import sys\ndef hook(*a): raise SystemExit(7)\nsys.excepthook = hook\n1/0",
    "thread joined": """
        import threading
        def work():
            event.wait(0.2)
            print('thread done')
        event = threading.Event()
        threading.Thread(target=work).start()
        print('main done')
        """,
    "daemon thread left": """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print('main done')
        """,
    "thread raises": "import threading\ndef w(): 1/0\nt = threading.Thread(target=w, name='w'); t.start(); t.join()",
    "atexit order": """
        import atexit, threading, sys
        atexit.register(print, 'first registered')
        atexit.register(print, 'second registered')
        t = threading.Thread(target=lambda: (threading.Event().wait(0.2), print('thread')))
        t.start()
        sys.exit(5)
        """,
    "atexit after raise": "import atexit\natexit.register(print, 'bye')\n1/0",
    "executor": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        pool.submit(print, 'pooled')
        """,
    "destructor": "class A:\n    def __del__(self): print('gone')\na = A()",
    "open file": "f = open('out.txt', 'w'); f.write('kept')",
    "main names": """
        import sys
        print(__name__, __file__, __spec__, __package__, __doc__, type(__loader__).__name__)
        print(sys.argv[1:], sys.modules['__main__'].__dict__ is globals(), __builtins__)
        print(sorted(n for n in dir() if n not in ('__annotations__', '__cached__')))
        """,
    "docstring": "'''About.'''\nprint(__doc__)",
    "future kept apart": "def f(x: undefined_name): pass",
    "annotations": "x: int = 3\nprint(__annotations__)",
    "dataclass pickled": """
        import dataclasses, pickle
        @dataclasses.dataclass
        class P:
            x: int
        print(pickle.loads(pickle.dumps(P(3))))
        """,
    "source found": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "streams closed": "import sys\nsys.stdout.close()\nsys.stderr.close()",
    "recursion": "def f(): f()\ntry:\n    f()\nexcept RecursionError as e:\n    print('caught')",
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME.keys())
def test_ends_as_python_does(shim, source):
    """Proves R-05."""
    want = plain(shim, source, "a", "b c")
    got = shim.script(source, "a", "b c")
    assert got.code == want.returncode
    assert got.out == want.stdout
    assert got.err == want.stderr


def test_exit_code_beyond_a_long(shim):
    # Later Pythons also print a complaint of their own.
    source = "raise SystemExit(1 << 70)"
    assert shim.script(source).code == plain(shim, source).returncode


def test_file_left_open_is_written(shim):
    for source in (
        "f = open('a.txt', 'w'); f.write('kept')",
        "import sys\nf = open('a.txt', 'w'); f.write('kept'); sys.keep = f",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nf = open('a.txt', 'w'); f.write('kept')",
        "import ctypes\nc = ctypes.CDLL(None)\nc.fopen.restype = ctypes.c_void_p\nf = c.fopen(b'a.txt', b'w')\nc.fputs(b'kept', ctypes.c_void_p(f))",
    ):
        shim.script(source)
        assert (shim.folder / "a.txt").read_text() == "kept", source
        (shim.folder / "a.txt").unlink()


def test_success_and_plain_exit_codes_need_no_words(shim):
    assert shim.script("pass").of("finished") == []
    assert shim.script("raise SystemExit(3)").of("finished") == []


FAILURES = {
    "raise": ("1/0", "ZeroDivisionError: division by zero", "ZeroDivisionError", "user_code"),
    "several lines": ("raise ValueError('a\\n  b\\n')", "ValueError: a b", "ValueError", "user_code"),
    "no message": ("raise ValueError", "ValueError", "ValueError", "user_code"),
    "unprintable": (
        "class E(Exception):\n    def __str__(self): 1/0\nraise E",
        "E: <unprintable E>",
        "E",
        "user_code",
    ),
    "exit text": ("raise SystemExit('no data')", "no data", "SystemExit", "user_code"),
    "host memory": ("raise MemoryError", "MemoryError", "MemoryError", "out_of_memory"),
    "cuda, old torch": (
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')",
        "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
        "RuntimeError",
        "out_of_memory",
    ),
    "cuda, new torch": (
        "class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('x')",
        "OutOfMemoryError: x",
        "OutOfMemoryError",
        "out_of_memory",
    ),
    "wrapped memory": (
        "try:\n    raise MemoryError\nexcept MemoryError as e:\n    raise ValueError('step 3') from e",
        "ValueError: step 3",
        "ValueError",
        "out_of_memory",
    ),
    "memory handled, then a fault": (
        "try:\n    raise MemoryError\nexcept MemoryError:\n    raise ValueError('other')",
        "ValueError: other",
        "ValueError",
        "user_code",
    ),
}


@pytest.mark.parametrize("source,error,error_type,end_class", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("imports", ["", "import cdui\n"], ids=["bare", "with cdui"])
def test_failure_is_told(shim, imports, source, error, error_type, end_class):
    """Proves R-03."""
    got = shim.script(imports + source)
    assert got.code == 1
    assert got.finished == {
        "type": "finished",
        "status": "failed",
        "error": error,
        "error_type": error_type,
        "end_class": end_class,
    }
    assert bool(got.of("hello")) == bool(imports)


def test_long_error_is_cut(shim):
    error = shim.script("raise ValueError('x' * 100000)").finished["error"]
    assert len(error) < 2100 and error.endswith("...")


def test_missing_module_names_interpreter_and_mend(shim):
    error = shim.script("import not_there.at_all").finished["error"]
    assert error.startswith("ModuleNotFoundError: No module named 'not_there'")
    assert PYTHON in error and "--venv or --python" in error
    # A part missing of a package that is there is another fault.
    assert "--venv" not in shim.script("import json.nope").finished["error"]


@pytest.mark.parametrize(
    "source",
    [b"\x7fELF\x00\x01\xff" * 50, b"print('a\xff')", b"x = 1\x00", b'{"nodes": [,]}', b"# coding: nonsense\n"],
    ids=["binary", "not utf-8", "nul", "json", "unknown coding"],
)
def test_file_that_is_no_python(shim, source):
    got = shim.script(source)
    assert got.code == 1
    assert got.finished["error"].startswith("train.py can't be read as Python 3.")
    assert got.finished["end_class"] == "user_code"
    assert "child.py" not in got.err and "Traceback" not in got.err


def test_file_that_is_gone(shim):
    path = str(shim.folder / "gone.py")
    got = shim.run([PYTHON, "-u", str(CHILD), "script", path])
    want = subprocess.run([PYTHON, path], capture_output=True, text=True)
    assert (got.code, got.err) == (want.returncode, want.stderr)
    assert got.finished["error"] == path + " can't be read: No such file or directory"


def test_path_is_the_scripts_own_folder(shim):
    real = shim.folder / "real"
    real.mkdir()
    (real / "neighbour.py").write_text("x = 'next door'")
    (real / "wire.py").write_text("x = 'mine'")
    (real / "train.py").write_text(
        "import sys, neighbour, wire\nprint(neighbour.x, wire.x, sys.path[0])\n"
        "import cdui\nprint(sum(p.endswith('runtime') for p in sys.path))"
    )
    (shim.folder / "link.py").symlink_to(real / "train.py")
    got = shim.run([PYTHON, "-u", str(CHILD), "script", str(shim.folder / "link.py")])
    assert got.err == ""
    assert got.out.splitlines() == ["next door mine " + str(real), "1"]


def test_runtime_is_importable_without_pythonpath(shim):
    shim.env = {"PYTHONPATH": ""}
    got = shim.script("import cdui, sys\nprint(sys.path[-1] == sys.path[0], sys.path[-1].endswith('runtime'))")
    assert got.out == "False True\n"


def test_environment_and_descriptors_are_not_inherited(shim):
    """Proves W-07."""
    got = shim.script(
        """
        import os, subprocess, sys
        print(os.environ.get('CDUI_CHILD_FDS'))
        look = "import os\\nfor fd in (3, 4):\\n    try:\\n        os.fstat(fd); print('open')\\n    except OSError: print('closed')"
        subprocess.run([sys.executable, '-c', look], close_fds=False)
        """
    )
    assert got.out.split() == ["None", "closed", "closed"]


def test_signal_ends_it(shim):
    def stop(process, _down):
        assert process.stdout.read(5) == b"ready"
        process.send_signal(signal.SIGTERM)

    got = shim.script("import sys, time; print('ready', end=''); time.sleep(60)", after_start=stop)
    assert got.code == -signal.SIGTERM
    assert got.finished is None


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(shim, method):
    got = shim.script(
        f"""
        import multiprocessing as mp
        import cdui

        class Thing:
            def __init__(self, n): self.n = n

        def work(thing):
            cdui.log({{"from_worker": thing.n}})
            return Thing(thing.n * 2)

        if __name__ == "__main__":
            ctx = mp.get_context("{method}")
            with ctx.Pool(2) as pool:
                print(sorted(t.n for t in pool.map(work, [Thing(1), Thing(2)], chunksize=1)))
                pool.close()
                pool.join()
            cdui.log({{"from_main": 1}})
        """
    )
    assert got.err == "" and got.code == 0
    assert got.out == "[2, 4]\n"
    # Only the process that the shim started may use the pipes.
    assert [p["name"] for line in got.of("metrics") for p in line["points"]] == ["from_main"]
    workers = [p["value"] for line in got.socket_of("metrics") for p in line["points"]]
    assert sorted(workers) == [1, 2]
    assert len(got.socket_of("hello")) >= 1


def test_process_left_to_atexit_is_joined(shim):
    got = shim.script(
        """
        import multiprocessing as mp, time
        def work():
            time.sleep(0.3)
            print("worker done", flush=True)
        if __name__ == "__main__":
            mp.get_context("fork").Process(target=work).start()
            print("main done", flush=True)
        """
    )
    assert got.out == "main done\nworker done\n"
