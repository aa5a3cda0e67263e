"""Tile programs by hand: assemble one, launch it on device tensors, look at its modelled time.

The text form is described in docs/tile_program_text.md. A program is verified when it is made; a launch checks that each
tensor has the format, layout and view that the program's symbol names, and refuses what doesn't fit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from torch_spyre import _C


@dataclass(frozen=True)
class Symbol:
    """A tensor that a program names. `format` is the device format ("dl16", "f32", ...), `direction` in, out, inout or temp."""

    name: str
    direction: str
    format: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class KernelTime:
    """Modelled time of one kernel call. Times in microseconds from the program's start, traffic in bytes of device memory."""

    kernel: str
    start_us: float
    duration_us: float
    bytes_read: int
    bytes_written: int
    macs: int
    pt_busy_us: float


@dataclass(frozen=True)
class Timeline:
    """What the card would take for one launch."""

    total_us: float
    calls: tuple[KernelTime, ...]


class Program:
    """A verified tile program.

    Parameters
    ----------
    text : str
        The program's text form. Raises RuntimeError with line and column, or with the rule that the program breaks.
    """

    def __init__(self, text: str):
        self._program = _C.TileProgram(text)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Program":
        with open(path, encoding="utf-8") as f:
            return cls(f.read())

    @property
    def text(self) -> str:
        """The text form, with every buffer placed; `Program(p.text)` is the same program."""
        return self._program.text()

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(Symbol(n, d, f, tuple(s)) for n, d, f, s in self._program.symbols())

    def launch(self, scalars: dict[str, float] | None = None, **tensors: torch.Tensor) -> None:
        """Enqueues one run on the current stream of the tensors' device.

        Parameters
        ----------
        scalars : dict
            A value for each scalar that the program declares.
        **tensors : torch.Tensor
            A spyre tensor for each symbol but the temps, by name.
        """
        self._program.launch(tensors, scalars or {})

    def timeline(self, scalars: dict[str, float] | None = None) -> Timeline:
        """The modelled time; needs no data and runs nothing."""
        total_ps, calls = self._program.timeline(scalars or {})
        return Timeline(total_ps / 1e6, tuple(KernelTime(k, s / 1e6, d / 1e6, r, w, m, p / 1e6) for k, s, d, r, w, m, p in calls))

    def write_trace(self, path: str | os.PathLike[str], scalars: dict[str, float] | None = None) -> None:
        """Writes the modelled timeline as a trace that opens in Perfetto: one track per unit of each followed core."""
        self._program.write_trace(os.fspath(path), scalars or {})


def start_trace(path: str | os.PathLike[str]) -> None:
    """Records what the process's streams do, in modelled time, until `stop_trace` writes it to `path` (Perfetto)."""
    _C.start_trace(os.fspath(path))


def stop_trace() -> None:
    """Writes the trace and stops recording. Synchronise first: queued work isn't waited for."""
    _C.stop_trace()
