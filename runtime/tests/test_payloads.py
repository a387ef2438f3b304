"""The payloads that Go and Python agree on byte for byte."""
import json

import make_payloads


def test_the_file_is_what_the_script_makes():
    """Proves EVT-03."""
    assert make_payloads.FILE.read_bytes() == make_payloads.content(), "run runtime/tests/make_payloads.py and commit its file"


def test_python_gives_the_same_bytes_again():
    """Proves EVT-03, W-07."""
    found = make_payloads.FILE.read_bytes().splitlines()
    assert len(found) == make_payloads.COUNT
    for line in found:
        assert json.dumps(json.loads(line), ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode() == line
