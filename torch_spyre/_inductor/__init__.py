"""Compiler-side names that other packages touch. Importing this imports no Inductor."""

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def spyre_hint(**hints: Any) -> Iterator[None]:
    """Hints for the planner about the ops inside the block.

    Accepted for code written against the vendor's stack; the planner chooses by cost and takes no hint, so this changes
    no result and no plan.
    """
    yield
