"""Stands in for the shim: the two pipes, the report socket, the environment."""
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "cdui" / "child.py"
TESTDATA = ROOT.parent / "internal" / "childproto" / "testdata"
PYTHON = os.environ.get("CDUI_TEST_PYTHON", sys.executable)

sys.path.insert(0, str(ROOT))

TIMEOUT_S = 60

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)  # metrics may be longer than Python likes to parse


def parse(raw):
    lines, garbage = [], []
    for line in raw.split(b"\n")[:-1]:
        try:
            lines.append(json.loads(line))
        except ValueError:
            garbage.append(line)
    assert raw == b"" or raw.endswith(b"\n")
    return lines, garbage


class Ended:
    """How a child ended and what it had sent."""

    def __init__(self, code, out, err, raw, socket_raw):
        self.code = code
        self.out = out
        self.err = err
        self.raw = raw
        self.lines, self.garbage = parse(raw)
        self.socket_lines, self.socket_garbage = parse(b"".join(socket_raw))

    def of(self, kind):
        return [line for line in self.lines if line["type"] == kind]

    def socket_of(self, kind):
        return [line for line in self.socket_lines if line["type"] == kind]

    @property
    def finished(self):
        found = self.of("finished")
        return found[0] if found else None


class Shim:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.report = self.folder / "report"
        self.down = b'{"type":"assign","run_id":"r","input":{"lr":0.5}}\n'
        self.socket_down = b""
        self.env = {}

    def script(self, source, *args, name="train.py", **kw):
        path = self.folder / name
        path.write_bytes(source if isinstance(source, bytes) else textwrap.dedent(source).encode())
        return self.run([PYTHON, "-u", str(CHILD), "script", str(path), *args], **kw)

    def run(self, argv, pipes=True, after_start=None, cwd=None):
        up_r, up_w = os.pipe()
        down_r, down_w = os.pipe()
        os.write(down_w, self.down)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "CDUI_RUN_ID": "r"}
        env["CDUI_REPORT"] = str(self.report)
        if pipes:
            env["CDUI_CHILD_FDS"] = "3,4"
        env.update(self.env)
        received, stop = self._listen()

        def place():
            a, b = os.dup(up_w), os.dup(down_r)  # neither may be 3 or 4 yet when the other is placed
            while a in (3, 4):
                a = os.dup(a)
            while b in (3, 4):
                b = os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=place if pipes else None,
            pass_fds=(3, 4) if pipes else (),
        )
        os.close(up_w)
        os.close(down_r)
        raw = []
        reader = threading.Thread(target=lambda: raw.append(drain(up_r)))
        reader.start()
        try:
            if after_start:
                after_start(process, down_w)
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            os.close(down_w)
            reader.join(TIMEOUT_S)
            stop()
        return Ended(process.returncode, out.decode(), err.decode(), raw[0], received)

    def _listen(self):
        received, conns, threads = [], [], []
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        if self.report.exists():
            self.report.unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("/proc/self/fd/%d/report" % folder)
        os.close(folder)
        listener.listen(64)

        def serve(conn):
            chunks = []
            try:
                while True:
                    chunk = conn.recv(1 << 16)
                    if not chunk:
                        break
                    chunks.append(chunk)
            except OSError:
                pass
            received.append(b"".join(chunks))

        def accept():
            while True:
                try:
                    conn, _ = listener.accept()
                except OSError:
                    return
                conns.append(conn)
                if self.socket_down:
                    conn.sendall(self.socket_down)
                thread = threading.Thread(target=serve, args=(conn,))
                thread.start()
                threads.append(thread)

        acceptor = threading.Thread(target=accept)
        acceptor.start()

        def stop():
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(TIMEOUT_S)
            listener.close()
            for conn in conns:
                conn.shutdown(socket.SHUT_RD)
            for thread in threads:
                thread.join(TIMEOUT_S)
            for conn in conns:
                conn.close()

        return received, stop


def drain(fd):
    chunks = []
    while True:
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            os.close(fd)
            return b"".join(chunks)
        chunks.append(chunk)


@pytest.fixture
def shim(tmp_path):
    return Shim(tmp_path)
