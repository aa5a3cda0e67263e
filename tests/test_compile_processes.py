"""What of torch.compile is seen from outside of a process: caches, logs, dumps, and what an import costs."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import torch
from torch._dynamo.utils import counters
from torch_spyre import compiled

def f(x, w, cache):
    cache[1:3] = x[:2]
    return torch.softmax(x @ w, -1) * torch.tensor([1.0, 2.0, 3.0], device=x.device)

torch.manual_seed(0)
x, w, cache = torch.randn(4, 8), torch.randn(8, 3), torch.zeros(4, 8)
d = cache.to("spyre")
r = torch.compile(f)(x.to("spyre"), w.to("spyre"), d)
torch.testing.assert_close(r.cpu(), f(x, w, cache), rtol=1e-3, atol=1e-3)
torch.testing.assert_close(d.cpu(), cache)
s = compiled.statistics()
print("graphs", counters["torch_spyre"]["graphs"], "instances", s["instances"], "disk", s["disk_hits"], "rebuilt", s["rebuilt"])
"""


@pytest.fixture
def run(tmp_path):
    """Runs PROGRAM with caches of its own; returns (the line of figures, error output)."""

    def go(**environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPYRE_", "TORCHINDUCTOR_", "TORCH_LOGS"))}
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "SPYRE_CACHE_DIR": str(tmp_path / "spyre")}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, env=env | environment, timeout=240,
            cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip().splitlines()[-1], done.stderr

    return go


def test_a_second_process_compiles_nothing(run, tmp_path):
    assert run()[0] == "graphs 1 instances 1 disk 0 rebuilt 0"
    # AOTAutograd's and Inductor's caches hit, the pass is not called; the generated code carries the graph.
    assert run()[0] == "graphs 0 instances 0 disk 1 rebuilt 0"
    # A damaged program is compiled anew from the graph that the generated code carries.
    files = [p for p in (tmp_path / "spyre").rglob("*") if p.is_file()]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:-7] + b"damaged")
    figures, errors = run()
    assert figures == "graphs 0 instances 1 disk 0 rebuilt 1" and "anew" in errors
    # So is one that is missing.
    for path in (tmp_path / "spyre").rglob("*"):
        if path.is_file():
            path.unlink()
    assert run()[0] == "graphs 0 instances 1 disk 0 rebuilt 0"


def test_logs_and_dumps(run, tmp_path):
    _, errors = run(TORCH_LOGS="+torch_spyre", TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path / "debug"))
    assert re.search(r"torch_spyre/_inductor/\w+\.py.*nodes in 1 launches, 0 outside", errors)
    assert re.search(r"region 0 on spyre:0: 2 inputs, 1 mutated, 1 outputs", errors)
    found = {p.name.split("_", 2)[-1]: p for p in tmp_path.rglob("spyre_*")}
    assert {"graph.txt", "plan.txt", "program.tile", "trace.json"} <= set(found), sorted(tmp_path.rglob("*"))
    assert "mutate v" in found["graph.txt"].read_text() and "kernel " in found["program.tile"].read_text()


def test_a_quiet_process_logs_nothing(run):
    _, errors = run()
    assert "torch_spyre" not in errors


def test_registering_and_asking_import_no_inductor(fresh_python):
    code = """
        import sys, torch
        x = torch.randn(3).to("spyre") + 1
        hasattr(torch.spyre, "_C"), torch.spyre.is_available()
        print([m for m in sys.modules if m.startswith(("torch._inductor", "torch._dynamo"))])
    """
    assert fresh_python(code, SPYRE_FALLBACK="silent").splitlines()[-1] == "[]"


def test_a_damaged_text_is_refused():
    from torch_spyre._inductor import programs

    program = programs.Program.make('input v0 "x" f32 [4:1]\nv1 f32 [4:1] = map [4] loads(v0[4:1]) value(neg(l0))\noutput v1[4:1]\n',
                                    [["input", 0]], [])  # fmt: skip
    with pytest.raises(RuntimeError, match="damaged"):
        programs.load("0" * 32, program.blob)
    with pytest.raises(RuntimeError, match="damaged"):
        programs.load("1" * 32, program.blob.replace(program.blob[10], "~", 1))
