"""Programs: graphs with what a launch must add to them, known in this process by their key.

A program travels as text inside the code that Inductor generates and caches, so a later process finds it without
compiling anything. This module is imported by that code: it imports no Inductor.
"""

import base64
import hashlib
import json
import threading
import zlib
from typing import Any, NamedTuple

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME


class Program(NamedTuple):
    """`key` is the hash of `blob`, which is the program compressed, in ASCII."""

    key: str
    blob: str

    @classmethod
    def make(cls, text: str, sources: list[list[Any]], constants: list[list[Any]]) -> "Program":
        """
        Parameters
        ----------
        text : str
            The graph.
        sources : list
            Per graph input what the launch gives it: ["input" | "mutated" | "constant", index].
        constants : list
            [dtype, shape, base64 of the contiguous host bytes] each.
        """
        plain = json.dumps({"text": text, "sources": sources, "constants": constants}, separators=(",", ":"))
        blob = base64.b85encode(zlib.compress(plain.encode(), 6)).decode()
        program = cls(hashlib.sha256(blob.encode()).hexdigest()[:32], blob)
        load(*program)
        return program


_lock = threading.Lock()
_blobs: dict[str, str] = {}
_shapes: dict[str, list[tuple[torch.dtype, list[Any], list[Any]]]] = {}


def load(key: str, blob: str) -> None:
    """Makes a program known to this process. Raises RuntimeError when the text is damaged."""
    with _lock:
        if key in _blobs:
            return
        if hashlib.sha256(blob.encode()).hexdigest()[:32] != key:
            raise RuntimeError(
                f"the cached program {key} is damaged: delete Inductor's cache folder (TORCHINDUCTOR_CACHE_DIR)"
            )
        plain = json.loads(zlib.decompress(base64.b85decode(blob)))
        _C._define_program(key, plain["text"], plain["sources"], [_tensor(*c) for c in plain["constants"]])
        _blobs[key] = blob


def blob_of(key: str) -> str:
    return _blobs[key]


def text_of(key: str) -> str:
    """The graph of a program, as text."""
    return json.loads(zlib.decompress(base64.b85decode(_blobs[key])))["text"]


def dump(key: str, path: str) -> None:
    """Writes the graph to `path`_graph.txt now, and plan and tile program of each instance beside it at its first launch."""
    with open(f"{path}_graph.txt", "w", encoding="utf-8") as f:
        f.write(text_of(key))
    _C._dump_program(key, path)


def _tensor(dtype: str, shape: list[int], data: str) -> torch.Tensor:
    raw = base64.b64decode(data)
    if not raw:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(bytearray(raw), dtype=getattr(torch, dtype)).reshape(shape)


def _fake_outputs(key: str, symbols: list[Any], device: int) -> list[torch.Tensor]:
    if key not in _shapes:
        _shapes[key] = [
            (dtype, [compile(s, "size", "eval") for s in sizes], [compile(s, "stride", "eval") for s in strides])
            for dtype, sizes, strides in _C._graph_outputs(text_of(key))
        ]
    names = {f"s{i}": s for i, s in enumerate(symbols)}
    names |= {"floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": torch.sym_min, "max": torch.sym_max}
    where = torch.device(DEVICE_NAME, device)
    return [
        torch.empty_strided([eval(s, names) for s in sizes], [eval(s, names) for s in strides], dtype=dtype, device=where)
        for dtype, sizes, strides in _shapes[key]
    ]


def register_fake_kernels() -> None:
    """What the launch ops give when tensors have no data: called once, by registration."""
    torch.library.register_fake(f"{DEVICE_NAME}::launch")(
        lambda inputs, symbols, device, program: _fake_outputs(program, symbols, device)
    )
    torch.library.register_fake(f"{DEVICE_NAME}::launch_mut")(
        lambda inputs, mutated, symbols, device, program: _fake_outputs(program, symbols, device)
    )
