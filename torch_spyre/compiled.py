"""What compiled graphs do on the device: their launches with modelled times, and counts of the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from torch_spyre import _C
from torch_spyre.tile import KernelTime, Timeline


@dataclass(frozen=True)
class CallTime(KernelTime):
    """Modelled time of one kernel call and the op that it comes from ("aten.addmm")."""

    op: str = ""


@dataclass(frozen=True)
class Launch:
    """One launch of a compiled graph.

    `program` is the key of the graph, `symbols` the values of its sizes, `plan` and `tile_program` what was made of it, as
    text; calls of the timeline are `CallTime`.
    """

    program: str
    symbols: tuple[int, ...]
    plan: str
    tile_program: str
    timeline: Timeline


@contextlib.contextmanager
def record(trace: str | os.PathLike[str] | None = None) -> Iterator[list[Launch]]:
    """``with record() as launches:`` fills the list with the launches of the block when it ends.

    Parameters
    ----------
    trace : path, optional
        The modelled timeline of launch i is written to ``<trace>_<i>.json``, for Perfetto.
    """
    launches: list[Launch] = []
    _C._record_launches("" if trace is None else os.fspath(trace))
    try:
        yield launches
    finally:
        for key, symbols, plan, program, total_ps, calls in _C._take_launches():
            times = tuple(CallTime(k, s / 1e6, d / 1e6, r, w, m, p / 1e6, op) for k, s, d, r, w, m, p, op in calls)
            launches.append(Launch(key, tuple(symbols), plan, program, Timeline(total_ps / 1e6, times)))


def statistics() -> dict[str, float]:
    """Of the process: instances compiled, found on disk (disk_hits), damaged ones made anew (rebuilt), launches, repacked
    tensors, and the modelled_us of all launches."""
    return _C._compile_statistics()


def reset_statistics() -> None:
    _C._reset_compile_statistics()
