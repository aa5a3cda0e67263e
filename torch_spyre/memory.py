"""Memory of the device: sizes are bytes of device memory, per device (None: the current one)."""

from collections import OrderedDict
from typing import Any

import torch

from torch_spyre import _C

Device = int | str | torch.device | None


def _index(device: Device) -> int:
    return _C._device_index(device)


def memory_stats(device: Device = None) -> "OrderedDict[str, Any]":
    """Statistics of the allocator, flat ("allocated_bytes.all.current"), empty before the first allocation."""
    return torch.accelerator.memory.memory_stats(_index(device))


def memory_allocated(device: Device = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    torch.accelerator.memory.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    torch.accelerator.memory.reset_accumulated_memory_stats(_index(device))


def empty_cache() -> None:
    """Gives cached, unused blocks of every device back."""
    torch.accelerator.memory.empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of the device."""
    return torch.accelerator.memory.get_memory_info(_index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table for people; `abbreviated` leaves the events out."""
    index = _index(device)
    stats = memory_stats(index)
    lines = [f"spyre:{index} device memory", f"{'bytes':<22}{'current':>16}{'peak':>16}{'allocated':>18}{'freed':>18}"]
    for name in ("allocated_bytes", "reserved_bytes", "requested_bytes"):
        cells = [stats.get(f"{name}.all.{kind}", 0) for kind in ("current", "peak", "allocated", "freed")]
        lines.append(f"{name:<22}{cells[0]:>16,}{cells[1]:>16,}{cells[2]:>18,}{cells[3]:>18,}")
    if not abbreviated:
        lines.append(
            f"allocations {stats.get('allocation.all.current', 0)}, out of memory {stats.get('num_ooms', 0)} times"
        )
    return "\n".join(lines)
