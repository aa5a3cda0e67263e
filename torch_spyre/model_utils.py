"""Helpers for moving whole models."""

import torch

from torch_spyre.constants import DEVICE_NAME


def load_model_to_spyre(model: torch.nn.Module, dtype: torch.dtype | None = None, device: str | torch.device = DEVICE_NAME) -> torch.nn.Module:
    """Moves `model` to the device, tied parameters staying tied.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place, as `Module.to` does.
    dtype : torch.dtype, optional
        Floating-point parameters and buffers are cast to it; None keeps them, except float64, which the device does not
        have and which becomes float32.
    device : str or torch.device
        Which Spyre device.

    Returns
    -------
    torch.nn.Module
        `model`.
    """
    if dtype is not None:
        return model.to(device=device, dtype=dtype)

    def move(t: torch.Tensor) -> torch.Tensor:
        return t.to(device, torch.float32) if t.dtype == torch.float64 else t.to(device)

    return model._apply(move)
