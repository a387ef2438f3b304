"""Entry point of a script run: `python -u child.py script PATH [ARGS...]`.

As `child.py spare` it is started ahead of its run, which spare.py waits for. It runs PATH as `python PATH ARGS...` would and ends the process with the
script's own exit code. What is imported here is paid for by every run, so only
modules that the interpreter has loaded or compiled in anyway are used; words
for a failure live in failure.py, which is read when there is one.
"""
import os
import sys
from _frozen_importlib_external import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))

# The pipes to the shim as (pid, up, down, identity of up, identity of down);
# None when there are none. cdui.wire takes them from here, with what has come
# over them by then.
channel = None
received = b""

# What tells the shim that a child started ahead would have served a run better.
IMPORTED = b'{"type":"imported","modules":["torch"]}'

# The machine's part of the run's fingerprint, which is told at the end.
host = ""


def identity(fd):
    """Tells a pipe from whatever is opened under its number after it is closed."""
    st = os.fstat(fd)
    return st.st_dev, st.st_ino


def claim():
    """Takes the pipes that the shim announces, so that no other process can."""
    global channel
    announced = os.environ.pop("CDUI_CHILD_FDS", "")
    try:
        up, down = [int(fd) for fd in announced.split(",")]
        for fd in (up, down):
            os.set_inheritable(fd, False)
            os.set_blocking(fd, True)
        channel = (os.getpid(), up, down, identity(up), identity(down))
    except (ValueError, OSError):
        return
    os.register_at_fork(after_in_child=disown)


def disown():
    """In a forked process: it reports through the socket, not through its parent's pipes."""
    global channel
    if channel is None:
        return
    _, up, down, up_id, down_id = channel
    channel = None
    for fd, was in ((up, up_id), (down, down_id)):
        try:
            if identity(fd) == was:
                os.close(fd)
        except OSError:
            pass


def sibling(name):
    """Loads a module of this folder without importing the package, whose import says hello."""
    loader = SourceFileLoader("cdui." + name, os.path.join(HERE, name + ".py"))
    module = type(sys)(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def serve_later():
    """In a spare: waits for its run, and is from then on as if started for it."""
    global received
    known = set(sys.modules)
    spare = sibling("spare")
    given, received = spare.wait(channel, HERE, known)
    spare.become(given)
    return given["argv"]


def new_main(path):
    """Makes the module that the script runs in, and puts sys in order for it."""
    main = type(sys)("__main__")
    main.__dict__.update(
        __file__=os.path.abspath(path),
        __builtins__=sys.modules["builtins"],
        __loader__=SourceFileLoader("__main__", path),
        __annotations__={},
        __cached__=None,
    )
    # This module stays reachable: its functions are needed when the script is done.
    sys.modules["cdui.child"] = sys.modules["__main__"]
    sys.modules["__main__"] = main
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    root = os.path.dirname(HERE)
    if root not in sys.path:
        sys.path.append(root)
    return main


def execute(path, main):
    """Runs the script; returns what it raised, its traceback without frames from here."""
    try:
        with open(path, "rb") as f:
            source = f.read()
        code = compile(source, main.__file__, "exec", dont_inherit=True)
        del source
    except BaseException as e:
        # Python itself shows such a fault without a traceback.
        return e.with_traceback(None), "load"
    try:
        exec(code, main.__dict__)
    except BaseException as e:
        return e.with_traceback(e.__traceback__.tb_next), "run"
    return None, ""


def exit_code(e):
    """Shows an exception as Python does and gives the exit status it stands for."""
    if isinstance(e, SystemExit):
        if e.code is None:
            return 0
        if isinstance(e.code, int):
            return e.code & 0xFF if -(1 << 63) <= e.code < 1 << 63 else 255
        flush(sys.stdout)
        try:
            sys.stderr.write(str(e.code) + "\n")
        except BaseException:
            pass
        return 1
    sys.last_exc = e
    sys.last_type, sys.last_value, sys.last_traceback = type(e), e, e.__traceback__
    try:
        sys.excepthook(type(e), e, e.__traceback__)
    except SystemExit as again:
        return exit_code(again)
    except BaseException as again:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(again), again, again.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(e), e, e.__traceback__)
    return 1


def flush(stream):
    """Reports whether the stream took what was buffered; a closed or absent one has nothing."""
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException:
        return False
    return True


def wind_down():
    """What the interpreter does before it tears itself down: join threads, run atexit."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException as e:
            sys.__excepthook__(type(e), e, e.__traceback__)
    import atexit

    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # each was shown when it was raised


def let_go(main):
    """Saves what files still hold.

    The tear-down that os._exit skips is a quarter of a second once torch is
    loaded, but it is also what writes the buffers of files that nobody closed:
    names of the script are dropped, open writers flushed, C's streams too.
    """
    if alone():
        names = main.__dict__
        for private in (True, False):
            for name in list(names):
                if name.startswith("_") == private and name != "__builtins__":
                    names[name] = None
        flush_files()
        return
    # Other threads may use the names, and destructors may wait for them for
    # ever: torch's process groups do. One may also hold the lock of a file.
    import threading

    try:
        flusher = threading.Thread(target=flush_files, daemon=True)
        flusher.start()
        flusher.join(2)
    except RuntimeError:
        pass


def alone():
    """Whether no other thread is left, of Python or of a library."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        threading = sys.modules.get("threading")
        return threading is None or threading.active_count() == 1


def flush_files():
    import _io
    import gc

    kinds = (_io._IOBase,)
    if "h5py" in sys.modules:
        # HDF5 writes its files at C's exit, which is skipped too.
        kinds += (sys.modules["h5py"].File,)
    files = [o for o in gc.get_objects() if issubclass(type(o), kinds)]
    # Text wrappers first: they write into the buffers beneath them.
    files.sort(key=lambda o: not issubclass(type(o), _io._TextIOBase))
    for f in files:
        flush(f)
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        try:
            ctypes.CDLL(None).fflush(None)
        except BaseException:
            pass


def take_host():
    """Takes what is meant for the fingerprint alone out of the run's environment."""
    global host
    host = os.environ.pop("CDUI_HOST", "")


def tell(line):
    sibling("uplink").send(line)


def last_words():
    """What only this process knows of the run that it executed."""
    if channel is None or channel[0] != os.getpid():
        return
    try:
        tell(sibling("fingerprint").facts_line(host, "torch" in sys.modules))
        if "torch" in sys.modules:
            sibling("memory").tell_peak(tell)
    except BaseException:
        pass  # the run has ended all the same


def leave(code, interrupted, main):
    """Ends the process. It does not return."""
    wind_down()
    last_words()
    let_go(main)
    if not flush(sys.stdout):
        code = code or 120
    flush(sys.stderr)
    if interrupted:
        import _signal

        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
        code = 128 + _signal.SIGINT
    os._exit(code)


def tell_imports():
    """Says whether the run would have been served better by a spare."""
    if "torch" not in sys.modules or channel is None or channel[0] != os.getpid():
        return
    _, up, _, up_id, _ = channel
    try:
        if identity(up) == up_id:
            os.write(up, IMPORTED + b"\n")
    except OSError:
        pass


def run_script(argv):
    path = argv[0]
    sys.argv = argv
    take_host()
    main = new_main(path)
    if "CDUI_MEMORY_BUDGET_MIB" in os.environ:
        sibling("memory").limit_later(tell)
    if os.environ.pop("CDUI_PROVENANCE", ""):
        sibling("provenance").script(path, tell)
    e, phase = execute(path, main)
    code = 0
    if phase == "load" and isinstance(e, OSError):
        print("%s: can't open file %r: [Errno %d] %s" % (sys.executable, path, e.errno, e.strerror), file=sys.stderr)
        code = 2
    elif e is not None:
        code = exit_code(e)
    if code != 0:
        try:
            sibling("failure").report(e, phase, path, tell)
        except BaseException:
            pass  # the exit status tells of the failure all the same
    interrupted = isinstance(e, KeyboardInterrupt)
    del e
    tell_imports()
    leave(code, interrupted, main)


if __name__ == "__main__":
    claim()
    argv = sys.argv[1:]
    if argv == ["spare"] and channel is not None:
        # The interpreter and its flags are as they were: argv begins after this file.
        argv = serve_later()[3:]
    if len(argv) < 2 or argv[0] != "script":
        sys.exit("usage: child.py script PATH [ARGS...]")
    run_script(argv[1:])
