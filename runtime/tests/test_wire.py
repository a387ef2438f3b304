"""What user code does with cdui, seen from the shim's end of the wire."""
import os
import subprocess
import textwrap

import pytest

from conftest import PYTHON, ROOT


def points(lines):
    return [p for line in lines for p in line["points"]]


def test_hello_comes_with_the_first_import_only(shim):
    """Proves W-07."""
    assert shim.script("pass").of("hello") == []
    got = shim.script("import cdui, importlib\nimport cdui.wire\nfrom cdui import log")
    assert got.of("hello") == got.lines[:1] == [{"type": "hello", "watches_cancel": True}]


def test_D4_values_arrive_as_they_were(shim):
    """Proves D4, R-06."""
    got = shim.script(
        """
        import cdui
        cdui.log({"a": float("nan"), "b": float("inf"), "c": -1e400, "d": -0.0, "e": 2**53 + 1, "f": 10**5000,
                  "g": True, "h": 0.1, "i": -2**80, "j": 5e-324})
        cdui.log({"a": 1.5})
        """
    )
    raw = got.raw.decode()
    assert "NaN" not in raw and "Infinity" not in raw
    by_name = {p["name"]: p for p in points(got.of("metrics"))[:10]}
    assert by_name["a"] == {"name": "a", "value": None, "step": 0, "nonfinite": "nan"}
    assert by_name["b"]["nonfinite"] == "inf" and by_name["c"]["nonfinite"] == "-inf"
    assert '"name":"d","value":-0.0' in raw
    assert '"value":9007199254740993' in raw
    assert '"value":1' + "0" * 5000 + "," in raw
    assert '"name":"g","value":1,' in raw
    assert by_name["h"]["value"] == 0.1 and by_name["j"]["value"] == 5e-324
    assert by_name["i"]["value"] == -(2**80)
    assert points(got.of("metrics"))[-1] == {"name": "a", "value": 1.5, "step": 1}


def test_steps(shim):
    got = shim.script(
        """
        import cdui
        cdui.log({"a": 1}); cdui.log({"a": 2, "b": 3}); cdui.log({"a": 4}, step=10); cdui.log({"a": 5, "b": 6})
        cdui.log({"a": 7}, step=3.0)
        """
    )
    assert [(p["name"], p["step"]) for p in points(got.of("metrics"))] == [
        ("a", 0), ("a", 1), ("b", 0), ("a", 10), ("a", 11), ("b", 1), ("a", 3),
    ]  # fmt: skip
    assert len(got.of("metrics")) == 5  # one line for each call


def test_scalars_of_other_libraries(shim):
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip("no torch in " + PYTHON)
    got = shim.script(
        """
        import torch, numpy, cdui, decimal, fractions
        cdui.log({"t": torch.tensor(1.5), "i": torch.tensor(2**60), "b": torch.tensor(True), "one": torch.ones(1, 1),
                  "n": numpy.float32(0.25), "u": numpy.uint64(2**64 - 1), "nb": numpy.bool_(False),
                  "long": numpy.longdouble(2), "nan": torch.tensor(float("nan")), "z": numpy.array(3),
                  "dec": decimal.Decimal("1.5"), "frac": fractions.Fraction(1, 4), "half": torch.tensor(0.5).bfloat16(),
                  "grad": torch.tensor(2.0, requires_grad=True)})
        """
    )
    assert got.err == ""
    assert {p["name"]: p["value"] for p in points(got.of("metrics"))} == {
        "t": 1.5, "i": 2**60, "b": 1, "one": 1, "n": 0.25, "u": 2**64 - 1, "nb": 0, "long": 2, "nan": None, "z": 3,
        "dec": 1.5, "frac": 0.25, "half": 0.5, "grad": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "call,words",
    [
        ("cdui.log({'loss': 'high'})", "cdui.log: the value of 'loss' is a str ('high'), not a number"),
        ("cdui.log({'loss': None})", "is a NoneType (None), not a number"),
        ("cdui.log({'loss': 1j})", "is a complex"),
        ("cdui.log({'loss': {'a': 1}})", "is a dict"),
        ("cdui.log({'ok': 1, 'loss': [1]})", "'loss' is a list ([1])"),
        ("cdui.log({'loss': 1}, step='3')", "cdui.log: step is a str"),
        ("cdui.log({'loss': 1}, step=0.5)", "step is 0.5, not a whole number"),
        ("cdui.log(3)", "takes a dict of names and numbers, not a int"),
        ("import array\nclass T:\n    def item(self): raise ValueError('10 elements')\ncdui.log({'loss': T()})", "no single number (10 elements)"),
    ],
)
def test_what_is_no_number_is_refused(shim, call, words):
    got = shim.script("import cdui\ntry:\n    %s\nexcept TypeError as e:\n    print(e)" % call.replace("\n", "\n    "))
    assert words in got.out and got.err == ""
    assert got.of("metrics") == []  # nothing of the call was recorded


@pytest.mark.parametrize("rank,want", [("0", ["a", "b"]), ("1", ["b"]), ("", ["a", "b"]), ("x", ["a", "b"])])
def test_rank_zero_counts(shim, rank, want):
    """Proves R-05."""
    shim.env = {"RANK": rank}
    got = shim.script("import cdui\ncdui.log({'a': 1})\ncdui.log({'b': 1}, all_ranks=True)")
    assert [p["name"] for p in points(got.of("metrics"))] == want


def test_rank_of_a_process_group_counts(shim):
    got = shim.script(
        """
        import cdui, sys, types
        dist = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1)
        sys.modules["torch.distributed"] = dist
        cdui.log({"a": 1})
        """
    )
    assert got.of("metrics") == []


def test_artifact(shim):
    got = shim.script(
        """
        import cdui, pathlib
        cdui.artifact("model.pt")
        cdui.artifact(pathlib.Path("/x/y"), kind="checkpoint", meta={"loss": float("nan"), "n": 3, "p": pathlib.Path("q"), "l": (1, True, None)})
        """
    )
    assert got.of("artifact") == [
        {"type": "artifact", "kind": "file", "path": str(shim.folder / "model.pt")},
        {"type": "artifact", "kind": "checkpoint", "path": "/x/y", "meta": {"loss": None, "n": 3, "p": "q", "l": [1, True, None]}},
    ]


def test_should_stop_over_the_pipe(shim):
    """Proves R-05, W-07."""
    def cancel(process, down):
        assert process.stdout.readline() == b"False\n"
        os.write(down, b'garbage\n[1]\n{"type":"unknown"}\n{"type":"can')
        os.write(down, b'cel","grace_ms":1000}\n')

    got = shim.script(
        """
        import cdui, time
        print(cdui.should_stop())
        while not cdui.should_stop():
            time.sleep(0.005)
        print(cdui.should_stop(), cdui.params())
        """,
        after_start=cancel,
    )
    assert got.err == ""
    assert got.out == "True {'lr': 0.5}\n"


def test_should_stop_over_the_socket(shim):
    shim.socket_down = b'{"type":"cancel","grace_ms":1000}\n'
    got = shim.run([PYTHON, "-c", "import cdui, time\nwhile not cdui.should_stop():\n    time.sleep(0.005)\nprint('stopped')"], pipes=False)
    assert got.out == "stopped\n" and got.err == ""
    assert got.socket_lines == [{"type": "hello", "watches_cancel": True}]


def test_params(shim):
    assert shim.script("import cdui; print(cdui.params())").out == "{'lr': 0.5}\n"
    shim.env = {"CDUI_PARAMS": '{"lr": 3}'}
    assert shim.run([PYTHON, "-c", "import cdui; print(cdui.params())"], pipes=False).out == "{'lr': 3}\n"
    shim.env = {"CDUI_PARAMS": "not json"}
    assert shim.script("import cdui; print(cdui.params())").out == "{}\n"
    shim.env, shim.down = {}, b'{"type":"assign","run_id":"r"}\n'
    assert shim.script("import cdui; print(cdui.params())").out == "{}\n"


@pytest.mark.parametrize(
    "env,want",
    [
        ({"CDUI_DEVICE": "cuda:0"}, "cuda:0"),
        ({"CDUI_DEVICE": "cpu", "LOCAL_RANK": "1"}, "cpu"),
        ({"CDUI_DEVICE": "mps"}, "mps"),
        ({"CDUI_DEVICE": "cuda:0", "CUDA_VISIBLE_DEVICES": "2,3", "LOCAL_RANK": "1"}, "cuda:1"),
        ({"CDUI_DEVICE": "cuda:0", "CUDA_VISIBLE_DEVICES": "2", "LOCAL_RANK": "1"}, "cuda:0"),
        ({}, "cpu"),
    ],
)
def test_device(shim, env, want):
    shim.env = env
    assert shim.script("import cdui; print(cdui.device())").out.strip() == want


def test_checkpoint_dir_is_made_on_first_use(shim):
    shim.env = {"CDUI_CHECKPOINT_DIR": str(shim.folder / "kept" / "ckpt")}
    got = shim.script("import cdui, os\nd = '%s'\nprint(os.path.exists(d), cdui.checkpoint_dir() == d, os.path.isdir(d))" % shim.env["CDUI_CHECKPOINT_DIR"])
    assert got.out == "False True True\n"


def test_outside_a_run_it_does_nothing_harmful(tmp_path):
    """Proves R-05."""
    source = """
        import cdui, sys
        cdui.log({"a": 1}, step=3); cdui.artifact("x")
        print(cdui.should_stop(), cdui.params(), cdui.device(), cdui.checkpoint_dir(), cdui.__version__ != "")
        print("torch" in sys.modules)
        """
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    got = subprocess.run([PYTHON, "-c", textwrap.dedent(source)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert got.stderr == ""
    assert got.stdout == "False {} cpu %s True\nFalse\n" % (tmp_path / "checkpoints")


def test_subprocess_reports_through_a_socket_with_a_long_path(shim):
    shim.folder = shim.folder / ("d" * 100)
    shim.folder.mkdir()
    shim.report = shim.folder / "report"
    assert len(str(shim.report)) > 107
    got = shim.script(
        """
        import subprocess, sys, cdui
        subprocess.run([sys.executable, "-c", "import cdui; cdui.log({'sub': 2}); cdui.artifact('/a')"], check=True)
        cdui.log({"main": 1})
        """
    )
    assert got.err == ""
    assert [p["name"] for p in points(got.of("metrics"))] == ["main"]
    assert [line["type"] for line in got.socket_lines] == ["hello", "metrics", "artifact"]


def test_forked_process_uses_the_socket_and_frees_the_pipes(shim):
    got = shim.script(
        """
        import os, cdui
        cdui.log({"before": 1})
        pid = os.fork()
        if pid == 0:
            for fd in (3, 4):
                try:
                    os.fstat(fd); print("still open")
                except OSError:
                    pass
            cdui.log({"forked": 1})
            os._exit(0)
        os.waitpid(pid, 0)
        cdui.log({"after": 1})
        """
    )
    assert got.out == "" and got.err == ""
    assert [p["name"] for p in points(got.of("metrics"))] == ["before", "after"]
    assert [p["name"] for p in points(got.socket_of("metrics"))] == ["forked"]


def test_fork_while_other_threads_log(shim):
    got = shim.script(
        """
        import os, threading, warnings, cdui
        warnings.simplefilter("ignore")  # Python advises against just this
        stop = threading.Event()
        def spam():
            while not stop.is_set():
                cdui.log({"noise": 1})
        threads = [threading.Thread(target=spam) for _ in range(3)]
        for t in threads: t.start()
        for n in range(20):
            pid = os.fork()
            if pid == 0:
                cdui.log({"forked": n})
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for t in threads: t.join()
        """
    )
    assert got.err == "" and got.code == 0
    assert sorted(p["value"] for p in points(got.socket_of("metrics"))) == list(range(20))


def test_lines_of_threads_stay_whole(shim):
    got = shim.script(
        """
        import threading, cdui
        def work(n):
            for i in range(20):
                cdui.log({"series %d %d %s" % (n, k, "x" * 50): i for k in range(200)}, step=i)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        """
    )
    assert len(got.of("metrics")) == 80  # far beyond PIPE_BUF each, and each parsed
    assert all(len(line["points"]) == 200 for line in got.of("metrics"))


def test_signal_handler_may_log(shim):
    got = shim.script(
        """
        import itertools, signal, cdui
        seen, count = [], itertools.count()
        def handler(*_):
            cdui.should_stop()
            cdui.log({"handler": next(count)})
            seen.append(1)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        wide = {"main %d" % k: 1 for k in range(500)}
        while len(seen) < 100:
            cdui.log(wide)
            cdui.should_stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        """
    )
    assert got.err == ""
    handled = [p["value"] for p in points(got.of("metrics")) if p["name"] == "handler"]
    # A handler may itself be interrupted by the next one.
    assert sorted(handled) == list(range(len(handled))) and len(handled) >= 100


def test_interrupted_write_spoils_no_other_line(shim):
    got = shim.script(
        """
        import signal, cdui
        class Enough(Exception): pass
        def handler(*_): raise Enough
        signal.signal(signal.SIGALRM, handler)
        wide = {"series %d" % k: 1 for k in range(8000)}
        cut = 0
        for n in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + n * 0.0003)
                for _ in range(10):
                    cdui.log(wide)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Enough:
                cut += 1
            cdui.log({"after": n})
        print(cut)
        """
    )
    assert got.err == ""
    cut = int(got.out)
    assert cut > 0 and len(got.garbage) <= cut
    assert [p["value"] for p in points(got.of("metrics")) if p["name"] == "after"] == list(range(60))


def test_broken_channel_is_silent(shim):
    shim.env = {"CDUI_REPORT": "/nowhere/report"}
    got = shim.run([PYTHON, "-c", "import cdui; cdui.log({'a': 1}); print(cdui.should_stop())"], pipes=False)
    assert (got.code, got.out, got.err) == (0, "False\n", "")

    got = shim.script(
        """
        import os, cdui
        os.closerange(3, 100)
        f = open("victim.txt", "w+b")
        assert f.fileno() == 3
        cdui.log({"a": 1})
        print(cdui.should_stop(), os.path.getsize("victim.txt"))
        """
    )
    assert (got.code, got.out, got.err) == (0, "False 0\n", "")


def test_reader_gone_is_silent(tmp_path):
    r, w = os.pipe()
    source = textwrap.dedent(
        """
        import os, sys, types
        child = types.ModuleType("cdui.child")
        st = os.fstat(%d)
        child.channel = (os.getpid(), %d, %d, (st.st_dev, st.st_ino), (st.st_dev, st.st_ino))
        sys.modules["cdui.child"] = child
        import cdui
        for n in range(3):
            cdui.log({"a": n})
        print("alive")
        """
        % (w, w, w)
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([PYTHON, "-c", source], env=env, pass_fds=(w,), stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(r))
    os.close(w)
    os.close(r)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"alive\n", b"")
