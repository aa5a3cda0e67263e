"""Figures, and how two sides are timed: in turn, in one process, medians."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Figure:
    """One row. `ratio` is how many times as fast as the other side we are; a limit is its least allowed value."""

    name: str
    ours: float
    other: float
    unit: str
    other_side: str
    ratio: float
    limit: float | None

    @property
    def held(self) -> bool:
        return self.limit is None or self.ratio >= self.limit


# Worker threads of either side (OpenMP's, ours) spin for milliseconds after a parallel loop, on the cores that the other side is
# measured on; GCC's OpenMP for about 10 ms.
_SETTLED = 0.03


def _seconds(run: Callable[[], object], calls: int) -> float:
    """Seconds a call, once the threads of the side before are asleep and this side's are awake."""
    time.sleep(_SETTLED)
    run()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def compare_all(sides: list[Callable[[], object]], rounds: int = 15, calls: int = 1) -> list[float]:
    """Medians of every side's seconds a call, in turn A B C A B C after a warm-up, so that drift of the machine hits all."""
    for run in sides:
        run(), run()
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, run in zip(times, sides, strict=True):
            side.append(_seconds(run, calls))
    return [statistics.median(side) for side in times]


def compare(ours: Callable[[], object], other: Callable[[], object], rounds: int = 15, calls: int = 1) -> tuple[float, float]:
    a, b = compare_all([ours, other], rounds, calls)
    return a, b


def figure(name: str, times: tuple[float, float], scale: float, unit: str, other_side: str, limit: float | None) -> Figure:
    ours, other = times
    return Figure(name, ours * scale, other * scale, unit, other_side, other / ours, limit)
