"""Helpers for moving whole models."""

import torch

from torch_spyre.constants import DEVICE_NAME


def load_model_to_spyre(
    model: torch.nn.Module, dtype: torch.dtype | None = None, device: str | torch.device = DEVICE_NAME
) -> torch.nn.Module:
    """Moves `model` to the device, tied parameters staying tied.

    (`Module.to` unties them for every device outside PyTorch's own: it makes a new Parameter for each place.)

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

    def move(t: torch.Tensor) -> torch.Tensor:
        kept = torch.float32 if t.dtype == torch.float64 else t.dtype
        return t.to(device, dtype if dtype is not None and t.is_floating_point() else kept)

    # Parameters are swapped in place instead, so that every holder of one sees it move.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return model._apply(move)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
