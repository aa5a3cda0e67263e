"""The figures of bench/README.md: each a ratio of two sides that are measured here, interleaved, in one run.

Usage: python bench/run.py [name ...]      (no name: all of them)
Prints a table, writes out/bench.json and out/bench.svg. Exit status 1 if a figure misses its limit.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F

import models
import picture
import programs
from measure import Figure, compare, figure
from torch_spyre import tile

OUT = Path(__file__).parent.parent / "out"


def synced(program: tile.Program, **tensors: torch.Tensor) -> Callable[[], None]:
    """Launch and wait: what a caller who needs the result pays."""

    def run() -> None:
        program.launch(**tensors)
        torch.spyre.synchronize()

    return run


def spyre(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape) / 8).half().to("spyre")


def transfers() -> list[Figure]:
    host = torch.randn(32 << 20).half()  # 64 MB
    device = host.to("spyre")
    back, cast = torch.empty_like(host), torch.empty(host.shape, dtype=torch.bfloat16)
    cpu = lambda: cast.copy_(host)  # noqa: E731
    side = "torch CPU copy_ fp16 to bf16"
    return [
        figure("H2D 64 MB fp16", compare(lambda: device.copy_(host), cpu), 1e3, "ms", side, 0.5),
        figure("D2H 64 MB fp16", compare(lambda: back.copy_(device), cpu), 1e3, "ms", side, 0.5),
    ]


def small_calls() -> list[Figure]:
    make = lambda device: lambda: torch.empty(64, 64, dtype=torch.float16, device=device)  # noqa: E731
    first, second = torch.spyre.Stream(), torch.spyre.Stream()
    event = torch.spyre.Event()

    def record_wait() -> None:
        event.record(first)
        event.wait(second)

    x, y = spyre(64), spyre(64)
    nothing = tile.Program(programs.empty())
    a, b = torch.randn(64).half(), torch.randn(64).half()
    add = lambda: torch.add(a, b)  # noqa: E731
    side = "torch CPU add of 64 elements"
    return [
        figure("empty tensor", compare(make("spyre"), make("cpu"), calls=2000), 1e6, "us", "torch CPU empty", 0.5),
        figure("event record + wait", compare(record_wait, add, calls=2000), 1e6, "us", side, None),
        figure("launch of an empty program", compare(lambda: nothing.launch(x=x, y=y), add, calls=500), 1e6, "us", side, None),
    ]


def matmuls() -> list[Figure]:
    rows = []
    for m, k, n, dtype, limit in ((512, 2048, 2048, torch.float32, 1.1), (1, 2048, 32768, torch.bfloat16, 1.0)):
        x, w = torch.randn(m, k) / 8, torch.randn(k, n) / 8
        run = synced(tile.Program(programs.linear(m, k, n)), x=x.half().to("spyre"), w=w.half().to("spyre"), y=spyre(m, n))
        cx, cw = x.to(dtype), w.to(dtype)
        cw_t = cw.t().contiguous().t()  # a linear layer's weight, as torch's models hold it
        plain, linear = compare(lambda: cx @ cw, lambda: cx @ cw_t)
        best, layout = (cw, "") if plain <= linear else (cw_t, ", weight transposed")
        kind = str(dtype).removeprefix("torch.")
        times = compare(run, lambda: cx @ best)
        rows.append(figure(f"matmul {m}x{k}x{n}", times, 1e3, "ms", f"torch CPU {kind}{layout}", limit))
    return rows


def strips() -> list[Figure]:
    """Against inductor's float32 kernels on the CPU, the same shapes."""
    r, c, n = 4096, 1024, 384
    g, b = torch.randn(n), torch.randn(n)
    cases = [
        ("gelu", (r, c), programs.gelu(r, c), {}, torch.compile(lambda t: F.gelu(t))),
        ("softmax", (r, c), programs.softmax(r, c), {}, torch.compile(lambda t: torch.softmax(t, -1))),
        ("layer norm", (r, n), programs.layer_norm(r, n, 1e-5), {"gamma": g.half().to("spyre"), "beta": b.half().to("spyre")},
         torch.compile(lambda t: F.layer_norm(t, (n,), g, b))),
    ]
    rows = []
    for name, shape, text, more, cpu in cases:
        x = torch.randn(*shape)
        run = synced(tile.Program(text), x=x.half().to("spyre"), y=spyre(*shape), **more)
        times = compare(run, lambda: cpu(x))
        rows.append(figure(f"{name} {shape[0]}x{shape[1]}", times, 1e9 / x.numel(), "ns/element", "torch inductor fp32", None))
    return rows


GROUPS: dict[str, Callable[[], list[Figure]]] = {
    "transfers": transfers, "small_calls": small_calls, "matmuls": matmuls, "strips": strips,
    "eager": models.eager, "whole_ops": models.whole_ops, "minilm": models.minilm, "launch": models.launch, "cold_compile": models.cold_compile,
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(GROUPS)
    if unknown:
        sys.exit(f"unknown figures {sorted(unknown)}; there are {sorted(GROUPS)}")
    torch.manual_seed(0)
    figures: list[Figure] = []
    print(f"{'figure':<48}{'ours':>10}{'other':>10} {'unit':<11}{'ratio':>7}{'limit':>7}  other side", flush=True)
    with torch.no_grad():
        for name in names or GROUPS:
            for f in GROUPS[name]():
                limit = "" if f.limit is None else f"{f.limit:.2f}"
                mark = "" if f.held else "  MISSED"
                print(f"{f.name:<48}{f.ours:10.3f}{f.other:10.3f} {f.unit:<11}{f.ratio:7.2f}{limit:>7}  {f.other_side}{mark}", flush=True)
                figures.append(f)
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.json").write_text(json.dumps([asdict(f) for f in figures], indent=1))
    (OUT / "bench.svg").write_text(picture.bars([(f.name, f.ratio, f.limit) for f in figures], "times as fast as the other side"))
    print(f"threads: {torch.get_num_threads()}; written: out/bench.json, out/bench.svg")
    return 0 if all(f.held for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
