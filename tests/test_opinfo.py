"""PyTorch's own op database: every sample input on the device against the CPU."""

import os
import warnings
import zlib

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)
#: Results that are not a function of the inputs: uninitialised memory, or drawn from the device's generator.
#: as_strided is among them: its samples look at memory behind a view, which a copy to the device doesn't have (test_views has it).
UNREPEATABLE = {"as_strided", "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "rand", "randn", "randint", "rand_like", "randn_like", "randint_like",
    "randperm", "bernoulli", "multinomial", "normal", "uniform", "exponential", "geometric", "log_normal", "cauchy", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "native_dropout_backward", "svd_lowrank", "pca_lowrank", "torch.ops.aten._flash_attention_forward",
    "torch.ops.aten._efficient_attention_forward", "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward"}  # fmt: skip


#: Composite ops that put +Inf between their steps: the device's 16-bit float has one code for +Inf and NaN, read as NaN.
PLUS_INFINITY_INSIDE = {"masked.softmin", "masked.amin", "masked.argmin", "masked.logsumexp"}


def tree(value, fn):
    if isinstance(value, torch.Tensor):
        return fn(value)
    if isinstance(value, (list, tuple)):
        mapped = [tree(v, fn) for v in value]
        return type(value)(*mapped) if hasattr(value, "_fields") else type(value)(mapped)
    if isinstance(value, dict):
        return {k: tree(v, fn) for k, v in value.items()}
    if isinstance(value, (str, torch.device)) and str(value) == "cpu" and fn is to_device:
        return "spyre"
    return value


def to_device(t: torch.Tensor) -> torch.Tensor:
    return t.detach().to("spyre") if t.layout == torch.strided else t


#: Said about what the device does not hold, or what the CPU has no kernel for: a refusal, not a wrong number.
REFUSALS = (
    "spyre device has no",
    "spyre device holds",
    "outside int32",
    "holds int64 as int32",
    "indices_or_sections to be on cpu",
    "float64",
    "omplex",
    "not implemented for",
    "same device",
    "parse",
)


def holds(t: torch.Tensor) -> torch.Tensor:
    """What the device can hold of a CPU value: DL16 has one fraction bit less than float16, and +Inf reads as NaN."""
    return (
        t.detach().to("spyre").cpu()
        if t.is_floating_point() and t.dtype.itemsize == 2 and t.layout == torch.strided
        else t
    )


def expected_for(got: torch.Tensor, cpu: torch.Tensor) -> torch.Tensor:
    """What a device result must be close to. Where the CPU overflows its 16 bits to +Inf, the device's wider range may
    still hold a number, which downloads as +Inf, or has overflowed too, which reads as NaN: both are right."""
    held = holds(cpu)
    if held.is_floating_point() and held.dtype.itemsize == 2 and got.shape == held.shape and got.dtype == held.dtype:
        held = torch.where((cpu == torch.inf) & (got == torch.inf), got, held)
    return held


#: Ops that may put equal elements in any order unless they are asked for a stable one: so they are.
ANY_ORDER_OF_EQUALS = {"sort", "argsort"}


def stable(op, args):
    """(input, args, kwargs) of the same call with stable=True."""
    this, rest, keywords = args
    if op.name not in ANY_ORDER_OF_EQUALS or rest and isinstance(rest[0], bool):
        return args
    names = ("dim", "descending")
    return this, (), dict(zip(names, rest, strict=False)) | keywords | {"stable": True}


def without_ties(op, result, this, dim=-1):
    """What of topk's result is defined: the values, and that each index has its value."""
    if op.name != "topk":
        return result
    values, indices = result
    return values, this.gather(dim, indices) if this.dim() else this


def sweep(op, dtype, limit):
    compared = refused = 0
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if number >= limit:
            break
        try:
            args = stable(op, tree((sample.input, sample.args, sample.kwargs), holds))
            device_args = tree(args, to_device)
        except (RuntimeError, TypeError) as error:
            assert any(w in str(error) for w in REFUSALS), error
            refused += 1
            continue
        try:
            expected = op(args[0], *args[1], **args[2])
        except Exception:  # noqa: BLE001
            continue  # not a function of these inputs any more
        try:
            got = op(device_args[0], *device_args[1], **device_args[2])
            flat_got, flat_expected = [], []
            dim = args[1][1] if len(args[1]) > 1 else args[2].get("dim", -1)
            got, expected = without_ties(op, got, device_args[0], dim), without_ties(op, expected, args[0], dim)
            tree(got, lambda t: flat_got.append(t.cpu()))
            tree(expected, flat_expected.append)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            assert any(w in str(error) for w in REFUSALS), f"{op.name} {dtype} sample {number}: {error}"
            refused += 1
            continue
        assert len(flat_got) == len(flat_expected)
        for a, b in zip(flat_got, flat_expected, strict=True):
            b = expected_for(a, b)
            loose = b.dtype in (torch.float16, torch.bfloat16)
            # Each step of a composite op rounds to DL16's 9 fraction bits; samples reach +-9, their differences +-70.
            kw = dict(rtol=2e-2, atol=0.1) if loose else dict(rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(
                a,
                b,
                equal_nan=True,
                **(kw if b.is_floating_point() else dict(rtol=0, atol=0)),
                msg=lambda m, n=number: f"{op.name} {dtype} sample {n}: {m}",
            )
        compared += 1
    return compared, refused


def cases(share: int):
    for op in op_db:
        for dtype in DTYPES:
            if dtype == torch.float16 and op.name in PLUS_INFINITY_INSIDE:
                continue
            if dtype in op.dtypes and op.name not in UNREPEATABLE:
                name = f"{op.formatted_name}-{str(dtype).split('.')[1]}"
                if share == 1 or zlib.crc32(name.encode()) % share == 0:
                    yield pytest.param(op, dtype, id=name)


@pytest.mark.parametrize(("op", "dtype"), cases(int(os.environ.get("SPYRE_OPINFO_SHARE", 12))))
def test_sample_of_ops(op, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sweep(op, dtype, limit=4)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dtype"), cases(1))
def test_every_op(op, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sweep(op, dtype, limit=100)
