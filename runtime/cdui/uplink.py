"""Sends a line to the shim from modules that work without the package cdui,
whose import says hello."""
import os
import sys


def send(line):
    """By cdui.wire once somebody imported it, else straight into the pipe."""
    wire = sys.modules.get("cdui.wire")
    if wire is not None:
        wire.channel.send(line)
        return
    # Nobody else writes to the pipe then; a forked process has given it up.
    channel = getattr(sys.modules.get("cdui.child"), "channel", None)
    if channel is None or channel[0] != os.getpid():
        return
    st = os.fstat(channel[1])
    if (st.st_dev, st.st_ino) == channel[3]:
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(channel[1], data) :]
