"""Ops that have no kernel on the device run on the CPU: counted, and warned about once per op."""

import warnings


class FallbackWarning(UserWarning):
    """An op of a device tensor ran on the CPU, with its data copied there and back."""


def warn_once(op: str, arguments: str) -> None:
    """Called by the C++ fallback at the first CPU run of `op` in this process.

    Parameters
    ----------
    op : str
        Overload name, as "aten::add.out".
    arguments : str
        Shapes and dtypes of the call.
    """
    warnings.warn(
        f"{op}({arguments}) has no kernel on the spyre device and ran on the CPU (this is said once per op; "
        "torch.spyre.fallback_counts() counts them; SPYRE_FALLBACK=error makes it an error)",
        FallbackWarning,
        stacklevel=2,
    )
