"""Everything that is registered with PyTorch, in order, once per process."""

import logging
import os

import torch

from torch_spyre.constants import DEVICE_NAME

_registered = False
_library: torch.library.Library | None = None  # its registrations live as long as it does


def register() -> None:
    """Registers device, module, methods, patches, ops and what is not built yet. Idempotent; the runtime is not started."""
    global _registered
    if _registered:
        return
    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    from torch_spyre import _C, device_module, patches
    from torch_spyre._inductor import programs
    from torch_spyre.ops import fallbacks

    _C._set_fallback_warning(fallbacks.warn_once)
    torch._register_device_module(DEVICE_NAME, device_module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    patches.apply()
    programs.register_fake_kernels()
    _refuse_distributed()
    _refuse_fp8_ops()
    log = logging.getLogger("torch_spyre")
    if os.environ.get("TORCH_SPYRE_DEBUG", "0") not in ("", "0"):
        log.setLevel(logging.DEBUG)
    log.debug("registered %s: %d devices", DEVICE_NAME, _C.device_count())
    _registered = True


def _refuse_distributed() -> None:
    """Registers the name of the communication backend, so that asking for it says what is missing."""
    if not torch.distributed.is_available():
        return
    from torch_spyre.constants import DISTRIBUTED_BACKEND_NAME

    def create(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError(
            f"the {DISTRIBUTED_BACKEND_NAME} backend (collectives between Spyre cards) is not built yet; "
            'use init_process_group("gloo") and move tensors with .cpu()'
        )

    import torch.distributed as dist

    if DISTRIBUTED_BACKEND_NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(DISTRIBUTED_BACKEND_NAME, create, devices=[DEVICE_NAME])


def _refuse_fp8_ops() -> None:
    """Defines the vendor's fp8 ops, so that calling one says what is missing."""
    global _library
    _library = torch.library.Library(DEVICE_NAME, "FRAGMENT")

    def refuse(*_args: object, **_kwargs: object) -> torch.Tensor:
        raise NotImplementedError(
            "the fp8 quantisation ops are not built yet: x.div(scale).clamp(-448, 448).to(torch.float8_e4m3fn) quantises, and q.float() * scale goes back"
        )

    for name in ("quantize_fp8", "dequantize_fp8"):
        _library.define(f"{name}(Tensor input, Tensor? scale=None) -> Tensor")
        _library.impl(name, refuse, "CompositeExplicitAutograd")
