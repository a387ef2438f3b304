"""What the sources may use: the standard library, Python 3.9, few imports at the start of a child."""
import ast
import os
import subprocess
import sys

import pytest

from conftest import CHILD, PYTHON, ROOT

SOURCES = sorted((ROOT / "cdui").rglob("*.py"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def at_import(tree):
    """The tree without the bodies of functions: what runs when the module is imported."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            node.body = []
    return tree


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the list of standard modules came with 3.10")
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_imports_only_the_standard_library(path):
    # Graphs compute with torch, inside functions; importing any module of ours must not need it.
    names = {name.partition(".")[0] for name in imported(at_import(ast.parse(path.read_text())))}
    allowed = {"cdui"}
    assert names - allowed <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_parses_as_python_39(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    # X | Y in an annotation is only safe where annotations are not evaluated.
    lazy = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" and n.names[0].name == "annotations" for n in tree.body)
    for node in ast.walk(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)) and isinstance(node.annotation, ast.BinOp):
            assert lazy, f"{path.name}:{node.lineno}"


def modules(*argv):
    got = subprocess.run([PYTHON, "-u", *argv], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True)
    return set(got.stdout.split())


def test_child_imports_nothing_that_python_did_not(tmp_path):
    script = tmp_path / "look.py"
    script.write_text("import sys\nprint(*sys.modules)")
    assert modules(str(CHILD), "script", str(script)) - modules(str(script)) == {"cdui.child"}


def test_importing_cdui_is_cheap(tmp_path):
    script = tmp_path / "look.py"
    script.write_text("import cdui, sys\nprint(*sys.modules)")
    heavy = {"socket", "typing_extensions", "logging", "argparse", "inspect", "traceback", "asyncio", "subprocess"}
    assert not modules(str(CHILD), "script", str(script)) & heavy


def test_probe_prints_one_object():
    import json

    got = subprocess.run([PYTHON, str(ROOT / "cdui" / "probe.py")], capture_output=True, text=True, check=True)
    facts = json.loads(got.stdout)
    assert facts["faults"] == [] and facts["executable"] and facts["version"].startswith("3.")


def test_probe_tells_of_a_broken_torch(tmp_path):
    import json

    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("print('noise')\nraise OSError('libcudart.so.12:\\n cannot open')")
    (package / "version.py").write_text("__version__ = '2.3.0+cu121'\ncuda: str = '12.1'\n")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}

    def ask(*flags):
        got = subprocess.run([PYTHON, str(ROOT / "cdui" / "probe.py"), *flags], env=env, capture_output=True, text=True, check=True)
        return json.loads(got.stdout)

    assert (ask()["torch"], ask()["torch_cuda"], ask()["faults"]) == ("2.3.0+cu121", "12.1", [])
    assert ask("--torch")["faults"] == [
        {"code": "torch_broken", "text": "torch is installed but does not import: OSError: libcudart.so.12: cannot open"}
    ]
