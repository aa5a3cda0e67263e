"""Decompositions that the device asks of torch.compile, beyond PyTorch's own."""

from collections.abc import Callable
from typing import Any

import torch

#: From op overload (which has .name()) to its decomposition. Empty: no op needs one, and tables are never changed globally.
spyre_decompositions: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
