"""The only places where PyTorch itself is changed; everything else is a registration.

1. ``Tensor.to(..., device_layout=L)`` and ``torch.empty(..., device_layout=L)``: a keyword that torch's parser would refuse.
2. ``Tensor.device_tensor_layout()``: a new method.
3. ``Tensor.__repr__``: torch's formatter casts to float64 on the tensor's device, which has none; a host copy is formatted.
"""

import functools
from typing import Any

import torch
from torch.utils._device import _device_constructors

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME


def _plain(tensor: torch.Tensor) -> bool:
    """A tensor that has a place on the device: not fake, functional, or of a subclass that formats itself."""
    return (
        tensor.device.type == DEVICE_NAME
        and type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and tensor.layout == torch.strided
        and not torch._is_functional_tensor(tensor)
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _check_device(device: Any) -> torch.device:
    device = torch.device(DEVICE_NAME if device is None else device)
    if device.type != DEVICE_NAME:
        raise ValueError(
            f"device_layout= places a tensor on the {DEVICE_NAME} device, but device={device} was asked for: leave one of them out"
        )
    return device


def apply() -> None:
    """Applies the three. Called once, by registration."""
    original_to, original_empty, original_repr = torch.Tensor.to, torch.empty, torch.Tensor.__repr__

    @functools.wraps(original_to)
    def to(self: torch.Tensor, *args: Any, device_layout: Any = None, **kwargs: Any) -> torch.Tensor:
        if device_layout is None:
            return original_to(self, *args, **kwargs)
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        source = self if dtype is None or dtype == self.dtype else original_to(self, dtype)
        return _C.to_with_layout(source, device_layout, _check_device(device), non_blocking)

    @functools.wraps(original_empty)
    def empty(*size: Any, device_layout: Any = None, **kwargs: Any) -> torch.Tensor:
        if device_layout is None:
            return original_empty(*size, **kwargs)
        device = _check_device(kwargs.pop("device", None))
        dtype = kwargs.pop("dtype", None) or torch.get_default_dtype()
        requires_grad = kwargs.pop("requires_grad", False)
        if "size" in kwargs:
            size = (kwargs.pop("size"),)
        if kwargs:
            raise TypeError(
                f"torch.empty with device_layout= takes size, dtype, device and requires_grad, not {', '.join(sorted(kwargs))}"
            )
        shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        return _C.empty_with_layout(list(shape), device_layout, dtype, device).requires_grad_(requires_grad)

    def device_tensor_layout(self: torch.Tensor) -> Any:
        """The SpyreTensorLayout of the allocation behind this tensor; None for a tensor that is fake or elsewhere."""
        if not _plain(self):
            return None
        return _C.get_spyre_tensor_layout(self)

    @functools.wraps(original_repr)
    def tensor_repr(self: torch.Tensor, *, tensor_contents: Any = None) -> str:
        if tensor_contents is not None or not _plain(self) or self.numel() == 0:
            return original_repr(self, tensor_contents=tensor_contents)
        from torch import _tensor_str

        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            tensor_contents = _tensor_str._tensor_str(self.detach().cpu(), len("tensor("))
        return original_repr(self, tensor_contents=tensor_contents)

    # ``with torch.device(...)`` and set_default_device know constructors by identity, and see the one behind ours.
    _device_constructors().add(original_empty)
    torch.jit._builtins._register_builtin(empty, "aten::empty")
    torch.Tensor.to = to
    torch.empty = empty
    torch.Tensor.device_tensor_layout = device_tensor_layout
    torch.Tensor.__repr__ = tensor_repr
