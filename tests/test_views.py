"""Every ATen view of every shape, read and written: no difference to the CPU on values that the device's format holds."""

import os
import random

import pytest
import torch

CASES = int(os.environ.get("SPYRE_VIEW_CASES", 10_000))
DTYPES = [
    torch.float16,
    torch.float32,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.int8,
    torch.uint8,
    torch.bfloat16,
    torch.int16,
    torch.float8_e5m2,
]
SIZES = [0, 1, 1, 2, 3, 5, 7, 13, 31, 63, 64, 65, 100, 127, 129]


def random_tensor(rng: random.Random) -> torch.Tensor:
    rank = rng.randint(0, 6)
    shape: list[int] = []
    budget = 3000
    for _ in range(rank):
        size = rng.choice([s for s in SIZES if s <= max(budget, 1)]) if rng.random() > 0.03 else 0
        shape.append(size)
        budget //= max(size, 1)
    rng.shuffle(shape)
    dtype = rng.choice(DTYPES)
    numel = 1
    for s in shape:
        numel *= s
    # Small integers: exact in every format; distinct enough that a wrong place shows.
    base = torch.arange(numel) % (2 if dtype == torch.bool else 97 if dtype != torch.float8_e5m2 else 8)
    return base.to(dtype).reshape(shape)


def one_view(t: torch.Tensor, rng: random.Random):
    """A random view op that is legal for t, as a function; None if the draw does not fit."""
    rank = t.dim()
    kind = rng.choice(
        "slice slice transpose permute expand unfold reshape diagonal as_strided select unsqueeze squeeze flatten".split()
    )
    d = rng.randrange(rank) if rank else 0
    n = t.size(d) if rank else 0
    if kind == "slice" and rank:
        start, stop, step = rng.randint(0, n), rng.randint(0, n), rng.choice([1, 1, 2, 3])
        return lambda x: x[(slice(None),) * d + (slice(start, max(stop, start), step),)]
    if kind == "transpose" and rank > 1:
        e = rng.randrange(rank)
        return lambda x: x.transpose(d, e)
    if kind == "permute" and rank > 1:
        order = rng.sample(range(rank), rank)
        return lambda x: x.permute(order)
    if kind == "expand" and rank < 6 and t.numel() < 1500:
        sizes = [rng.choice([1, 2, 3]), *[s if s != 1 or rng.random() < 0.5 else rng.choice([2, 4]) for s in t.shape]]
        return lambda x: x.expand(sizes)
    if kind == "unfold" and rank and rank < 6 and n > 1 and t.numel() < 1000:
        size, step = rng.randint(1, min(n, 5)), rng.randint(1, 3)
        return lambda x: x.unfold(d, size, step)
    if kind == "reshape" and rank and n > 1:
        divisors = [k for k in range(1, n + 1) if n % k == 0]
        k = rng.choice(divisors)
        shape = [*t.shape[:d], k, n // k, *t.shape[d + 1 :]]
        return (lambda x: x.view(shape)) if rank < 6 else None
    if kind == "diagonal" and rank > 1:
        a, b = rng.sample(range(rank), 2)
        offset = rng.randint(-2, 2)
        return lambda x: x.diagonal(offset, a, b)
    if kind == "select" and rank and n:
        i = rng.randrange(n)
        return lambda x: x.select(d, i)
    if kind == "unsqueeze" and rank < 6:
        return lambda x: x.unsqueeze(d)
    if kind == "squeeze":
        return lambda x: x.squeeze()
    if kind == "flatten" and t.is_contiguous():
        return lambda x: x.view(-1)
    if kind == "as_strided" and t.untyped_storage().nbytes():
        total = t.untyped_storage().nbytes() // t.element_size()
        rank = rng.randint(1, 3)
        sizes = [rng.randint(1, 6) for _ in range(rank)]
        strides = [rng.randint(0, 9) for _ in range(rank)]
        room = total - 1 - sum((s - 1) * k for s, k in zip(sizes, strides, strict=True))
        if room >= 0:
            offset = rng.randint(0, room)
            return lambda x: x.as_strided(sizes, strides, offset)
    return None


def has_overlap(t: torch.Tensor) -> bool:
    places = torch.zeros(1, dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        places = (places[:, None] + torch.arange(size) * stride).reshape(-1)
    return places.unique().numel() != places.numel()


def run_case(seed: int) -> None:
    rng = random.Random(seed)
    base = random_tensor(rng)
    if base.dim() > 1 and rng.random() < 0.3:  # dense in another order: another default layout
        base = base.permute(rng.sample(range(base.dim()), base.dim()))
    host, device = base.clone(), base.to("spyre")
    for _ in range(rng.randint(0, 5)):
        op = one_view(host, rng)
        if op is None:
            continue
        try:
            new_host = op(host)
        except RuntimeError:  # view() of strides that don't allow it: the device must refuse as well
            with pytest.raises(RuntimeError):
                op(device)
            continue
        host, device = new_host, op(device)
        if host.numel() > 20_000:
            break
    assert (
        device.shape == host.shape
        and device.stride() == host.stride()
        and device.storage_offset() == host.storage_offset()
    )
    comparable = (
        (lambda t: t.view(torch.uint8)) if host.dtype.itemsize == 1 and host.dtype != torch.bool else (lambda t: t)
    )
    assert torch.equal(comparable(device.cpu().contiguous()), comparable(host.contiguous()))
    if rng.random() < 0.3:
        assert torch.equal(
            comparable(device.clone(memory_format=torch.contiguous_format).cpu()), comparable(host.contiguous())
        )
    if rng.random() < 0.2 and host.dim() and host.dtype.itemsize > 1:
        d = rng.randrange(host.dim())
        assert torch.equal(device.flip(d).cpu(), host.flip(d))
    if host.numel() and not has_overlap(host):
        new = (
            (
                (torch.arange(host.numel()) * 7 + 3)
                % (2 if host.dtype == torch.bool else 50 if host.dtype != torch.float8_e5m2 else 8)
            )
            .to(host.dtype)
            .reshape(host.shape)
        )
        write = rng.choice(["host", "device", "fill", "expand"])
        if write == "host":
            host.copy_(new), device.copy_(new)
        elif write == "device":
            host.copy_(new), device.copy_(new.to("spyre"))
        elif write == "fill":
            host.fill_(1), device.fill_(1)
        else:
            host.copy_(new.reshape(-1)[0]), device.copy_(new.reshape(-1)[0].to("spyre"))
        # The whole memory: nothing outside the view may have changed.
        whole_host = host.as_strided((host.untyped_storage().nbytes() // host.element_size(),), (1,), 0)
        whole_device = device.as_strided((device.untyped_storage().nbytes() // device.element_size(),), (1,), 0)
        assert torch.equal(comparable(whole_device.cpu()), comparable(whole_host))


def run_cases(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            run_case(seed)
        except BaseException:
            print(f"view chain with seed {seed} differs (run_case({seed}) in tests/test_views.py repeats it)")
            raise


def test_random_view_chains():
    first = int(os.environ.get("SPYRE_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"first seed {first}")
    run_cases(first, CASES)


def test_random_view_chains_scrambled(fresh_python):
    """The same with every allocation permuted: only something that reaches around the layout would notice."""
    first = random.SystemRandom().randrange(1 << 30)
    here = os.path.dirname(__file__)
    out = fresh_python(
        f"""
        import sys; sys.path.insert(0, {here!r})
        import test_views; test_views.run_cases({first}, {max(CASES // 2, 1)}); print("same")
        """,
        SPYRE_LAYOUT="scramble",
    )
    assert out.endswith("same")
