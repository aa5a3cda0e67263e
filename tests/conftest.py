"""What the tests share: a fresh interpreter for what must be seen from the first import, and comparisons with the CPU."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch


@pytest.fixture
def fresh_python():
    """Runs a program in a new interpreter and returns its standard output; fails with its error output."""

    def run(code: str, ok: bool = True, **environment: str) -> str:
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SPYRE_", "AIU_", "LOCAL_RANK", "TORCH_DEVICE_BACKEND"))
        }
        env.update(environment)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, timeout=240
        )
        if ok:
            assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
            return done.stdout.strip()
        assert done.returncode > 0, f"exit code {done.returncode} (a signal, or success)\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(20240607)


@pytest.fixture
def fresh_compiler():
    """torch.compile as in a new process, without its caches: counters start at 0, and the device's pass is called."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    torch.spyre.reset_fallback_counts()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
