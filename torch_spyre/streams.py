"""Streams and events of the device, with the names torch.cuda uses."""

from types import TracebackType
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME

Device = int | str | torch.device | None


class Stream(torch.Stream):
    """A FIFO queue of device work. As a context manager it becomes the current stream.

    Parameters
    ----------
    device : int, str or torch.device, optional
        None: the current device.
    priority : int
        Lower runs first, as in CUDA; 0 is the default.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **ids: int) -> "Stream":
        if ids:
            return super().__new__(cls, **ids)
        return super().__new__(cls, torch.device(DEVICE_NAME, _C._device_index(device)), priority=priority)

    @classmethod
    def _wrap(cls, stream: torch.Stream) -> "Stream":
        return cls(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)

    def id(self) -> int:
        return self.stream_id

    def priority(self) -> int:
        return _C._stream_priority(self.stream_id, self.device_index)

    def device(self) -> torch.device:
        return torch.device(DEVICE_NAME, self.device_index)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        if event is None:
            event = Event(device=self.device())
        event.record(self)
        return event

    def __enter__(self) -> "Stream":
        _C._push_stream(self.stream_id, self.device_index)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C._pop_stream()

    def __repr__(self) -> str:
        return f"<torch_spyre.Stream device={DEVICE_NAME}:{self.device_index} id={self.stream_id}>"


class _EventType(type):
    def __instancecheck__(cls, obj: Any) -> bool:
        return isinstance(obj, torch.Event) and obj.device.type == DEVICE_NAME


class Event(metaclass=_EventType):
    """Makes a torch.Event of the device (torch's own methods refuse a subclass); isinstance() works.

    `elapsed_time` between two, in milliseconds, is modelled card time unless SPYRE_EVENT_CLOCK=host.
    """

    def __new__(
        cls, device: Device = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        where = torch.device(DEVICE_NAME, _C._device_index(device))
        return torch.Event(where, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


class StreamContext:
    """``with torch.spyre.stream(s):`` makes `s` current; None does nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            _C._push_stream(self.stream.stream_id, self.stream.device_index)
        return self.stream

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            _C._pop_stream()


def stream(ctx: torch.Stream | None) -> StreamContext:
    return StreamContext(ctx)


def current_stream(device: Device = None) -> Stream:
    return Stream(
        stream_id=_C._current_stream(_C._device_index(device)),
        device_index=_C._device_index(device),
        device_type=_C._device_type,
    )


def default_stream(device: Device = None) -> Stream:
    return Stream(stream_id=0, device_index=_C._device_index(device), device_type=_C._device_type)


def set_stream(s: torch.Stream) -> None:
    """Makes `s` the current stream of this thread, and its device the current device."""
    _C._set_stream(s.stream_id, s.device_index)
