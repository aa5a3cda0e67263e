"""A hand-written tile program on two streams with an event between, and its timeline: tensors, streams, events, traces.

The first stream computes h = gelu(x w + b) with the program of linear_gelu.tile; the second waits for an event of the first
and normalises h's rows with layer_norm.tile. Both results are compared with torch on the CPU. Exit status 1 if they differ.
"""

import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from torch_spyre import tile

HERE = Path(__file__).parent
OUT = HERE.parent / "out"
ROWS, INNER, COLS = 512, 1024, 1536


def show_tensors() -> None:
    """A tensor goes to the card, through a view, and comes back."""
    a = torch.arange(12, dtype=torch.float16).reshape(3, 4)
    d = a.to("spyre")
    print(f"device        {torch.spyre.get_device_name()}, {torch.spyre.get_device_properties().multi_processor_count} cores")
    print(f"layout        {d.device_tensor_layout()}")
    print(f"d.t()[1:]     {d.t()[1:].cpu().tolist()}")
    assert torch.equal(d.t()[1:].cpu(), a.t()[1:])


def run_two_streams() -> tuple[float, float]:
    """Returns both results' largest differences from the CPU's float32, relative to values above 1."""
    torch.manual_seed(0)
    x, w = torch.randn(ROWS, INNER).half() / 8, torch.randn(INNER, COLS).half() / 8
    b, gamma, beta = (torch.randn(COLS).half() for _ in range(3))
    linear = tile.Program.from_file(HERE / "linear_gelu.tile")
    norm = tile.Program.from_file(HERE / "layer_norm.tile")

    dx, dw, db, dg, dbeta = (t.to("spyre") for t in (x, w, b, gamma, beta))
    h = torch.empty(ROWS, COLS, dtype=torch.float16, device="spyre")
    y = torch.empty_like(h)
    first, second = torch.spyre.Stream(), torch.spyre.Stream()
    begin, done, end = (torch.spyre.Event(enable_timing=True) for _ in range(3))
    torch.spyre.synchronize()  # the uploads, before other streams read them

    OUT.mkdir(exist_ok=True)
    tile.start_trace(OUT / "tiles_streams.json")
    host = time.perf_counter()
    with torch.spyre.stream(first):
        begin.record()
        linear.launch(x=dx, w=dw, b=db, y=h)
        done.record()
    with torch.spyre.stream(second):
        second.wait_event(done)
        norm.launch(x=h, g=dg, b=dbeta, y=y)
        end.record()
    end.synchronize()
    host = time.perf_counter() - host
    tile.stop_trace()

    rows = [(p, c) for p in (linear, norm) for c in p.timeline().calls]
    print("\nmodelled time of the card")
    print(f"  {'kernel':<12}{'us':>9}{'read KB':>10}{'written KB':>12}{'PT busy':>9}")
    for _, c in rows:
        busy = 100 * c.pt_busy_us / c.duration_us
        print(f"  {c.kernel:<12}{c.duration_us:9.2f}{c.bytes_read / 1024:10.0f}{c.bytes_written / 1024:12.0f}{busy:8.0f}%")
    print(f"  by events {begin.elapsed_time(end) * 1e3:11.2f} us     on this host {host * 1e3:.1f} ms")
    linear.write_trace(OUT / "tiles_linear.json")

    ref_h = F.gelu(x.float() @ w.float() + b.float())
    ref_y = F.layer_norm(h.cpu().float(), (COLS,), gamma.float(), beta.float())
    return relative_error(h, ref_h), relative_error(y, ref_y)


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    return ((result.cpu().float() - reference).abs() / reference.abs().clamp(min=1)).max().item()


def main() -> int:
    show_tensors()
    linear_error, norm_error = run_two_streams()
    good = max(linear_error, norm_error) < 2 / 512  # DL16 has 9 fraction bits: two units in the last place
    timeline = tile.Program.from_file(HERE / "linear_gelu.tile").timeline()
    print("\ntraces        open out/tiles_streams.json (streams) and out/tiles_linear.json (units of the cores) in Perfetto\n")
    print(f"linear error: {linear_error:.5f}")
    print(f"norm error: {norm_error:.5f}")
    print(f"modelled us: {timeline.total_us:.2f}")
    print(f"fallbacks: {sum(torch.spyre.fallback_counts().values())}")
    print(f"result: {'ok' if good else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
