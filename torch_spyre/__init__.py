"""IBM Spyre as a PyTorch device.

`import torch` finds this package by its entry point (group ``torch.backends``) and calls `_autoload`. With autoload
switched off (``TORCH_DEVICE_BACKEND_AUTOLOAD=0``), call ``torch_spyre._autoload()`` by hand. Neither starts the runtime:
that happens at the first operation on the device.
"""


# Defined before torch is imported: whoever imports torch_spyre first is re-entered here by torch's autoload.
def _autoload() -> None:
    """Makes "spyre" a device of this process. Idempotent.

    Torch hides an error raised by an autoloaded backend behind a general one, so the cause is printed before it is raised.
    """
    try:
        from torch_spyre import registration

        registration.register()
    except BaseException:
        import sys
        import traceback

        print("torch_spyre: registering the spyre device failed:", file=sys.stderr)
        traceback.print_exc()
        raise


import torch  # noqa: E402,F401

from torch_spyre.constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME  # noqa: E402,F401

__version__ = "0.1.0"
