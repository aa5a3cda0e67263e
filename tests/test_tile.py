"""Tile programs from Python: launch on tensors, refusals, modelled time, traces."""

import json
from pathlib import Path

import pytest
import torch

from torch_spyre import tile

EXAMPLES = Path(__file__).parent.parent / "examples"

SCALE = """
sym x: in dl16 [100,70]
sym y: out dl16 [100,70]
scalar alpha: f32 in 0..8
loc 0 "aten.mul" "model.py:7"
kernel scale(x: in dl16 [100,70], y: out dl16 [100,70]; alpha: f32 in 0..8) cores 4 {
  grid(rc:4) {
    core r in 0..100 by 32 on rc
    for t in r by 8 {
      buf v dl16[8,70] x2
      ld v = x[t, 0..70] @loc(0)
      buf o dl16[8,70] x2
      sfp o = v * alpha @loc(0)
      st y[t, 0..70] = o @loc(0)
    }
  }
}
call scale(x, y; alpha) @loc(0)
"""


@pytest.fixture()
def xy():
    x = (torch.arange(7000) % 91 - 45).reshape(100, 70).half()
    return x, x.to("spyre"), torch.zeros(100, 70, dtype=torch.float16, device="spyre")


def test_a_program_runs_on_tensors_with_the_scalar_of_each_launch(xy):
    x, dx, dy = xy
    program = tile.Program(SCALE)
    for alpha in (2.0, 0.5):
        program.launch(scalars={"alpha": alpha}, x=dx, y=dy)
        assert torch.equal(dy.cpu(), (x * alpha))


def test_input_and_output_may_be_the_same_tensor(xy):
    x, dx, _ = xy
    tile.Program(SCALE).launch(scalars={"alpha": 2.0}, x=dx, y=dx)
    assert torch.equal(dx.cpu(), x * 2)


def test_the_printed_text_is_the_same_program():
    program = tile.Program(SCALE)
    assert tile.Program(program.text).text == program.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: {"x": x.t().contiguous(), "y": y}, "tensor x has sizes"),
        (lambda x, y: {"x": x.float(), "y": y}, "f32"),
        (lambda x, y: {"x": x.cpu(), "y": y}, "cpu"),
        (lambda x, y: {"x": x}, "symbol y"),
        (lambda x, y: {"x": x, "y": y, "z": y}, "no symbol z"),
    ],
)
def test_a_launch_refuses_tensors_that_do_not_fit(xy, change, message):
    _, dx, dy = xy
    with pytest.raises(RuntimeError, match=message):
        tile.Program(SCALE).launch(scalars={"alpha": 1.0}, **change(dx, dy))
    assert dy.cpu().abs().sum() == 0


@pytest.mark.parametrize("scalars", [{}, {"alpha": 9.0}, {"alpha": 1.0, "beta": 1.0}])
def test_a_launch_refuses_scalars_that_do_not_fit(xy, scalars):
    _, dx, dy = xy
    with pytest.raises(RuntimeError, match="scalar"):
        tile.Program(SCALE).launch(scalars=scalars, x=dx, y=dy)


def test_a_bad_program_is_refused_with_its_place():
    with pytest.raises(RuntimeError, match="1:1|line 1"):
        tile.Program("nonsense")
    with pytest.raises(RuntimeError, match="scale"):  # every core would store all rows
        tile.Program(SCALE.replace("st y[t, 0..70]", "st y[0..8, 0..70]"))


def test_a_trap_names_op_and_source_line_and_the_device_stays_usable():
    text = """
sym ids: in i32 [8]
sym table: in dl16 [4,64]
sym y: out dl16 [8,64]
loc 0 "aten.embedding" "model.py:3"
kernel embed(ids: in i32 [8], table: in dl16 [4,64], y: out dl16 [8,64]) cores 1 {
  grid(c:1) {
    buf ix i32[8] x1
    ld ix = ids[0..8] @loc(0)
    buf row dl16[8,64] x1
    ld row = table[ix in 0..4 trap, 0..64] @loc(0)
    st y[0..8, 0..64] = row @loc(0)
  }
}
call embed(ids, table, y) @loc(0)
"""
    program = tile.Program(text)
    table = torch.randn(4, 64).half()
    y = torch.empty(8, 64, dtype=torch.float16, device="spyre")
    good = torch.tensor([0, 3, 1, 1, 2, 0, 3, 3], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="aten.embedding.*model.py:3|model.py:3.*aten.embedding"):
        program.launch(ids=(good + 1).to("spyre"), table=table.to("spyre"), y=y)
        torch.spyre.synchronize()
    program.launch(ids=good.to("spyre"), table=table.to("spyre"), y=y)
    expected = table.to("spyre").cpu()[good.long()]
    assert torch.equal(y.cpu(), expected)


def test_an_event_orders_two_streams(xy):
    x, dx, dy = xy
    program = tile.Program(SCALE)
    first, second, done = torch.spyre.Stream(), torch.spyre.Stream(), torch.spyre.Event()
    z = torch.zeros_like(dy)
    torch.spyre.synchronize()
    with torch.spyre.stream(first):
        for _ in range(20):
            program.launch(scalars={"alpha": 1.0}, x=dx, y=dy)
        done.record()
    with torch.spyre.stream(second):
        second.wait_event(done)
        program.launch(scalars={"alpha": 2.0}, x=dy, y=z)
    second.synchronize()
    assert torch.equal(z.cpu(), x * 2)


def test_the_modelled_time_is_deterministic_and_needs_no_data():
    program = tile.Program.from_file(EXAMPLES / "linear_gelu.tile")
    timeline = program.timeline()
    assert timeline == tile.Program.from_file(EXAMPLES / "linear_gelu.tile").timeline()
    assert timeline.calls[0].macs == 512 * 1024 * 1536
    assert 0 < timeline.calls[0].pt_busy_us <= timeline.calls[0].duration_us <= timeline.total_us


def test_traces_are_json_with_named_tracks(tmp_path, xy):
    _, dx, dy = xy
    program = tile.Program(SCALE)
    program.write_trace(tmp_path / "units.json", {"alpha": 1.0})
    tile.start_trace(tmp_path / "streams.json")
    program.launch(scalars={"alpha": 1.0}, x=dx, y=dy)
    torch.spyre.synchronize()
    tile.stop_trace()
    for name in ("units.json", "streams.json"):
        loaded = json.loads((tmp_path / name).read_text())
        events = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
        assert any(e["ph"] == "X" and e["dur"] > 0 for e in events)
        assert any(e["ph"] == "M" for e in events)
