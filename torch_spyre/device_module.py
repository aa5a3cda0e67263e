"""The module `torch.spyre`.

Names follow torch.cuda. Asking is free: only init, synchronize, mem_get_info and what allocates start the runtime.
"""

import threading
from dataclasses import dataclass
from typing import Any

import torch

from torch_spyre import _C, memory, streams  # noqa: F401  torch.spyre.memory and .streams
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.memory import (  # noqa: F401
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from torch_spyre.streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream  # noqa: F401

Device = int | str | torch.device | None
_init_lock = threading.Lock()


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    """True once the runtime has started in this process (and not in a fork of it)."""
    return _C._is_initialized() and not _is_in_bad_fork()


def init() -> None:
    """Starts the runtime now instead of at the first operation."""
    with _init_lock:
        _C._init()


def _lazy_init() -> None:
    init()


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def device_count() -> int:
    """Visible devices (SPYRE_DEVICES, AIU_WORLD_SIZE). Never raises."""
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device: int | str | torch.device) -> None:
    """Selects the current device of this thread."""
    _C.set_device(_C._device_index(device))


def _exchange_device(index: int) -> int:
    return _C._exchange_device(index)


def _maybe_exchange_device(index: int) -> int:
    return _C._exchange_device(index) if index >= 0 else -1


class device:
    """``with torch.spyre.device(1):`` selects a device for a block. A negative index or None changes nothing."""

    def __init__(self, device: Device) -> None:
        negative = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if negative else _C._device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> "device":
        self.prev_idx = _maybe_exchange_device(self.idx)
        return self

    def __exit__(self, *_: Any) -> bool:
        _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Selects the device of a tensor or storage; one that is on another kind of device changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == DEVICE_NAME else None)


def synchronize(device: Device = None) -> None:
    """Waits for all work of the device; raises what a failed launch left behind."""
    _C.synchronize(_C._device_index(device))


@dataclass(frozen=True)
class DeviceProperties:
    """What the device description says of one card: memory in bytes, clock in kHz."""

    name: str
    multi_processor_count: int
    total_memory: int
    scratchpad_bytes: int
    clock_rate: int

    @property
    def clock(self) -> int:
        return self.clock_rate


def get_device_properties(device: Device = None) -> DeviceProperties:
    _C._device_index(device)
    return DeviceProperties(**_C._device_properties())


def get_device_name(device: Device = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Generation of the architecture, as (major, minor)."""
    _C._device_index(device)
    return (1, 0)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 is held in the device's 16-bit float, which has more fraction bits and a narrower exponent."""
    return True


def fallback_counts() -> dict[str, int]:
    """How often each op ran on the CPU for want of a kernel, by overload name, since the process started or the last reset."""
    return _C._fallback_counts()


def reset_fallback_counts() -> None:
    _C._reset_fallback_counts()


# Random numbers. One generator per device; seeds and states may be set before the runtime starts.
def _generator(device: Device) -> torch.Generator:
    return _C._default_generator(_C._device_index(device))


def manual_seed(seed: int) -> None:
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    _generator(None).seed()


def seed_all() -> None:
    value = torch.Generator().seed()
    manual_seed_all(value)


def initial_seed() -> int:
    return _generator(None).initial_seed()


def get_rng_state(device: Device = DEVICE_NAME) -> torch.Tensor:
    """State of the device's generator: 16 bytes on the CPU (seed and offset)."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Device = DEVICE_NAME) -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _inductor_name(name: str) -> Any:
    """What Inductor looks for when it first needs a backend of this device; registers ours, and Inductor's own way of
    registering what it finds here then ends, for want of the C++ wrapper."""
    from torch_spyre._inductor import backend

    backend.register()
    if name == "CppWrapperCodegen":
        raise AttributeError("registered by torch_spyre._inductor.backend")
    return {"Scheduling": backend.Scheduling, "PythonWrapperCodegen": backend.Wrapper}[name]


def __getattr__(name: str) -> Any:
    """Any other name is looked up in torch_spyre._C, as `torch.spyre.SpyreTensorLayout`."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "_initialized":  # torch.utils.checkpoint asks for it before it saves the generator's state
        return is_initialized()
    if name in ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen"):
        return _inductor_name(name)
    try:
        return getattr(_C, name)
    except AttributeError:
        raise AttributeError(f"module 'torch.{DEVICE_NAME}' has no attribute '{name}'") from None
