"""Eager ops run on the device itself: no trips to the CPU, torch's numbers, dtypes, shapes, strides and errors; numbers that change make no new programs."""

import pytest
import torch
import torch.nn.functional as F

from torch_spyre import _C


@pytest.fixture
def native():
    """Fails when an op of the test ran on the CPU."""
    torch.spyre.reset_fallback_counts()
    yield
    assert torch.spyre.fallback_counts() == {}


def compiled() -> int:
    """Programs that this process made or found on disk."""
    numbers = _C._compile_statistics()
    return numbers["instances"] + numbers["disk_hits"]


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(fn, *inputs):
    """`fn` of device tensors against `fn` of what the device holds of them."""
    held = [t.to("spyre").cpu() if isinstance(t, torch.Tensor) else t for t in inputs]
    device = [t.to("spyre") if isinstance(t, torch.Tensor) else t for t in inputs]
    for expected, got in zip(flat(fn(*held)), flat(fn(*device)), strict=True):
        assert got.is_spyre
        assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
        exact = not expected.is_floating_point()
        loose = expected.dtype in (torch.float16, torch.bfloat16)
        tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 2e-2, "atol": 2e-2} if loose else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True, **tolerance)


def data(*sizes, dtype=torch.float32):
    return torch.rand(sizes).mul(2).add(0.1).to(dtype)


X, Y, ROW, COLUMN = data(4, 6), data(4, 6), data(6), data(4, 1)
HALF, INTS, BOOLS = data(4, 6, dtype=torch.float16), torch.randint(-9, 9, (4, 6)), torch.rand(4, 6) > 0.5
IDS = torch.tensor([3, 0, 2])

UNARY = "abs ceil cos erf exp exp2 expm1 floor isfinite isinf isnan log log10 log1p log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sqrt square tan tanh trunc".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions(native, name):
    fn = getattr(torch, name)
    for x in (X, HALF, X.t(), X[:, 1:4], X.expand(2, 4, 6), X[0, 0], X[:0]):
        check(fn, x)


@pytest.mark.parametrize("x", [X, HALF, INTS], ids=["float32", "float16", "int64"])
@pytest.mark.parametrize("y", [Y, ROW, COLUMN, HALF, INTS, 3, 2.5, torch.tensor(1.5), torch.tensor(2)], ids=str)
def test_promotion(native, x, y):
    check(lambda a, b: a + b, x, y)
    check(lambda a, b: b * a, x, y)
    check(lambda a, b: a - b, x, y)
    check(lambda a, b: a < b, x, y)
    check(lambda a, b: torch.where(a > 1, a, b), x, y)


def test_scalars_of_the_cpu_keep_torchs_types(native):
    half = HALF.to("spyre")
    assert (half + torch.tensor(1.5)).dtype == torch.float16
    assert (INTS.to("spyre") + torch.tensor(1.5)).dtype == torch.float32
    assert (half[0, 0] + torch.tensor(1.5)).dtype == torch.float32
    assert (half * 2).dtype == torch.float16 and (BOOLS.to("spyre") + 1).dtype == torch.int64
    check(lambda a: a * float("nan"), X)
    check(lambda a: a.masked_fill(a > 1, float("-inf")), X)
    check(lambda a: a + True, X)


MORE = {
    "alpha": lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), torch.rsub(x, y, alpha=3)),
    "powers": lambda x, y: (x**2, x**0.5, x**-1, x**1.7, 2**x, x**y),
    "clamp": lambda x, y: (x.clamp(0.5, 1.5), x.clamp(min=1), x.clamp(max=y), torch.minimum(x, y), torch.fmax(x, y)),
    "division": lambda x, y: (x / y, x // y, x % 0.7, torch.div(x, y, rounding_mode="trunc"), 1 / x, torch.fmod(x, y)),
    "ternary": lambda x, y: (x.lerp(y, 0.3), torch.addcmul(x, x, y, value=2), torch.addcdiv(x, x, y, value=-0.5)),
    "activations": lambda x, y: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.elu(x - 1), F.leaky_relu(x - 1), F.softplus(x), F.hardswish(x - 1), F.mish(x),
        F.hardtanh(x), F.threshold(x, 1, 0.5)),
    "matmul": lambda x, y: (x @ y.t(), torch.addmm(x[:, :4], x, y.t(), beta=0.5, alpha=2), torch.bmm(x[None], y.t()[None]), torch.mv(x, y[0]), x[0] @ y[0],
        torch.matmul(x.expand(3, 4, 6), y.t()), F.linear(x, y, x[:, 0]), torch.baddbmm(x[None, :, :4], x[None], y.t()[None], beta=0)),
    "sums": lambda x, y: (x.sum(), x.sum(1, keepdim=True), x.mean(-1), x.prod(1), x.var(1), x.std(), x.amax((0, 1)), x.logsumexp(1), x.norm(), x.norm(dim=0),
        x.sum(0, dtype=torch.float16), *torch.var_mean(x, 0)),
    "extremes": lambda x, y: (*x.max(1), *x.min(0), x.argmax(), x.argmin(1), x.max(), (x > 1).all(), (x > 1).any(1), (x > y).any((0, 1))),
    "softmax": lambda x, y: (x.softmax(-1), x.log_softmax(0), x.t().softmax(0)),
    "norms": lambda x, y: (F.layer_norm(x, (6,), y[0], y[1]), F.layer_norm(x, (6,)), F.rms_norm(x, (6,), y[0], 1e-6), F.group_norm(x, 3)),
    "places": lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y]), F.pad(x, (1, 2)), x.flip(0), x.roll(1, 0), x.repeat(2, 2), x.tril(), x.triu(1)),
    "orders": lambda x, y: (*x.sort(-1), *x.topk(2), x.cumsum(1), x.cumprod(0), *x.cummax(1), x.argsort(0)),
    "logic": lambda x, y: ((x > 1) & (y > 1), (x > 1) | (y > 1), (x > 1) ^ (y > 1), ~(x > 1), torch.logical_and(x, y), x == x, x != y),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more_ops(native, name):
    check(MORE[name], X, Y)


def test_integers(native):
    check(lambda a: (a + 3, a - a, a * a, a // 2, a % 3, a & 3, a | 1, a ^ 5, ~a, a << 2, a >> 1, -a, a.abs(), a.clamp(-2, 2), a.sign(), a**2), INTS)
    check(lambda a: (a.sum(), a.sum(0), a.max(), *a.max(1), a.cumsum(0), a.to(torch.int32) * 2, a / 2, a.float().mean()), INTS)
    check(lambda a: (a.to(torch.int8) * 3, a.to(torch.int8) - 9), INTS)


def test_indices(native):
    check(lambda a, i: (a[i], a[:, i], a[i, i], a[-i - 1], a.index_select(0, i), F.embedding(i, a), a.gather(0, i[:, None].expand(3, 6))), X, IDS)
    check(lambda a: a[torch.tensor([0, 2])], X)
    check(lambda a: a[torch.arange(2, device=a.device)], X)
    check(lambda a, i: a.scatter(1, i[None], 2.0), X, IDS)
    check(lambda a, i: a.scatter_add(0, i[:, None].expand(3, 6), a[:3]), X, IDS)
    check(lambda a, i: a.index_add(0, i, a[:3], alpha=2), X, IDS)
    check(lambda a, i: a.index_copy(0, i, a[1:]), X, IDS)
    check(lambda a, i: a.index_fill(1, i, 7), X, IDS)


def test_images(native):
    image, kernel = data(2, 3, 8, 8), data(4, 3, 3, 3)
    check(lambda a, w, b: F.conv2d(a, w, b, padding=1), image, kernel, data(4))
    check(lambda a: (a * 2).relu() + a.mean((2, 3), keepdim=True), image.to(memory_format=torch.channels_last))
    check(lambda a: F.avg_pool2d(a, 2), image)
    check(lambda a, m: F.batch_norm(a, m, m + 1, m, m), image, data(3))


def test_attention(native):
    q, k = data(2, 4, 5, 8), data(2, 2, 7, 8)
    check(lambda a: F.scaled_dot_product_attention(a, a, a), q)
    check(lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True, scale=0.3), q)
    check(lambda a: F.scaled_dot_product_attention(*[a.transpose(1, 2)] * 3), q)
    check(lambda a, b: F.scaled_dot_product_attention(a, b, b, enable_gqa=True), q, k)
    mask = torch.rand(5, 5) > 0.4
    mask[:, 0] = True
    check(lambda a, m: F.scaled_dot_product_attention(a, a, a, m), q, mask)
    check(lambda a, m: F.scaled_dot_product_attention(a, a, a, m), q, data(2, 1, 5, 5))


def test_attention_gives_its_logarithms(native):
    q = data(1, 2, 5, 8)
    op = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    held = q.to("spyre")
    out, logarithms, _, _, length_q, length_k, *_ = op(held, held, held)
    scores = q @ q.transpose(-1, -2) / 8**0.5
    torch.testing.assert_close(logarithms.cpu(), scores.logsumexp(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(out.cpu(), scores.softmax(-1) @ q, rtol=1e-4, atol=1e-4)
    assert (length_q, length_k) == (5, 5)


def test_attention_learns():
    q = data(1, 2, 5, 8)
    grads = []
    for device in ("cpu", "spyre"):
        x = q.clone().to(device).requires_grad_()
        F.scaled_dot_product_attention(x, x, x).square().sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-4)


def test_in_place(native):
    def body(x, y):
        x.add_(y).mul_(2).sub_(0.5)
        x[:, 1:3].add_(1)
        x.t()[0].mul_(3)
        x[1:3, ::2].div_(y[1:3, ::2])
        x.relu_().clamp_(max=5).masked_fill_(y > 1, 0.25)
        x[0].copy_(y[1]), x[1].fill_(2), x[2].zero_()
        x[torch.tensor([3, 0])] = y[:2]
        x.addcmul_(y, y, value=0.1).lerp_(y, 0.5)
        x.index_put_((torch.tensor([1, 1]),), y[:2], accumulate=True)
        return x

    check(body, X.clone(), Y)
    x = HALF.to("spyre")
    address = x.data_ptr()
    assert x.add_(ROW.to("spyre")) is x and x.data_ptr() == address and x.dtype == torch.float16


def test_out(native):
    x, y = X.to("spyre"), Y.to("spyre")
    expected = x.cpu() + y.cpu()
    for out in (torch.empty(0, device="spyre"), torch.zeros(4, 6, device="spyre"), torch.zeros(6, 4, device="spyre").t(), torch.zeros(4, 12, device="spyre")[:, ::2],
        torch.zeros(4, 6, dtype=torch.float16, device="spyre")):  # fmt: skip
        assert torch.add(x, y, out=out) is out and out.shape == (4, 6)
        torch.testing.assert_close(out.cpu().float(), expected, rtol=2e-3, atol=2e-3)
    with pytest.warns(UserWarning, match="resized"):
        wrong = torch.zeros(2, 2, device="spyre")
        torch.mul(x, 2, out=wrong)
    assert wrong.shape == (4, 6) and wrong.stride() == (6, 1)
    product = torch.zeros(4, 4, device="spyre")
    torch.mm(x, y.t(), out=product)
    torch.testing.assert_close(product.cpu(), x.cpu() @ y.cpu().t(), rtol=1e-4, atol=1e-4)
    values, places = torch.empty(0, device="spyre"), torch.empty(0, dtype=torch.int64, device="spyre")
    torch.sort(x, out=(values, places))
    assert torch.equal(values.cpu(), x.cpu().sort().values) and torch.equal(places.cpu(), x.cpu().sort().indices)
    total = torch.empty(4, dtype=torch.float32, device="spyre")
    torch.sum(HALF.to("spyre"), 1, dtype=torch.float32, out=total)
    torch.testing.assert_close(total.cpu(), HALF.to("spyre").cpu().float().sum(1), rtol=1e-4, atol=1e-4)


def test_arguments_that_share_memory(native):
    x, h = torch.arange(24.0, device="spyre").reshape(4, 6), torch.arange(24.0).reshape(4, 6)
    for t in (x, h):
        t.add_(t), t.mul_(t[0].clone()), t[1:].sub_(t[1:]), t[:, :3].add_(t[:, 3:])
        torch.add(t[0], t[1], out=t[2]), torch.mul(t.t(), 2, out=t.t())
    assert torch.equal(x.cpu(), h)
    assert torch.equal((x * x + x).cpu(), h * h + h)
    for t in (x, h):
        flat_view = t.reshape(-1)
        with pytest.raises(RuntimeError, match="overlap|memory location"):
            torch.add(flat_view[:-1], 1, out=flat_view[1:])
        with pytest.raises(RuntimeError):
            t[:1].expand(4, 6).add_(1)


def test_zeros_of_both_signs_are_different_numbers(native):
    for zero in (0.0, -0.0, 0, -0.0, 0.0):
        check(lambda x: (x / zero, 1 / (x * zero), 1 / x.masked_fill(x > 1, zero), 1 / torch.add(x * 0, x, alpha=zero)), X)


def test_sign_of_nan_and_zeros(native):
    odd = torch.tensor([float("nan"), -0.0, 0.0, -2, float("inf"), float("-inf")])
    check(lambda x: (x.sign(), x.sgn(), 1 / x.sign()), odd)


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), float("-inf")])
def test_variance_of_one_element(native, value):
    one = torch.tensor([[value]])
    check(lambda x: (x.var(correction=0), x.std(1, correction=0), x[0, 0].var(correction=0), x.mean()), one)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_integers_over_zero_raise(native, dtype):
    x, zeros = torch.tensor([5, 7], dtype=dtype, device="spyre"), torch.tensor([2, 0], dtype=dtype, device="spyre")
    for divisor in (zeros, 0):
        for op in (
            lambda d: x // d,
            lambda d: x % d,
            lambda d: torch.fmod(x, d),
            lambda d: torch.div(x, d, rounding_mode="trunc"),
        ):
            with pytest.raises(RuntimeError, match="division by zero"):
                op(divisor).cpu()
    check(lambda x: (x // 2, x % 2, torch.fmod(x, 3), x // -1, torch.div(x, 3, rounding_mode="trunc")), INTS.to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_numbers_beside_narrow_integers_are_converted_first(native, dtype):
    x = torch.tensor([1, 100, -1], dtype=torch.int16).to(dtype)
    for n in (-1, 300, 65535, 70000, -7):
        check(lambda x: (x == n, x < n, x > n, x + n, x * n, n - x, x // n if n % 256 else x, x % n if n % 256 else x), x)
    check(lambda x: (x.clamp(-1, 2), x.clamp(min=-3)), x)
    for too_large in (lambda x: x.clamp(max=70000), lambda x: x.masked_fill(x > 1, 70000)):
        with pytest.raises(RuntimeError, match="without overflow"):
            too_large(x.to("spyre"))


def test_errors_are_torchs():
    x = X.to("spyre")
    with pytest.raises(RuntimeError, match="must match"):
        x + x[:, :5]
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        x @ x
    with pytest.raises(RuntimeError, match="can't be cast"):
        INTS.to("spyre").add_(1.5)
    with pytest.raises(RuntimeError, match="can't be cast|dtype"):
        torch.add(x, 1.5, out=torch.empty(4, 6, dtype=torch.int32, device="spyre"))
    with pytest.raises(RuntimeError, match="same device"):
        x + X
    with pytest.raises(RuntimeError, match="doesn't match|expand|broadcast"):
        x[0].masked_fill_(x > 1, 0.0)
    with pytest.raises(RuntimeError):
        x[IDS.to("spyre") + 5].cpu()
    assert torch.equal((x + 0).cpu(), X)


def test_numbers_make_no_programs(native):
    x, y = data(5, 7).to("spyre"), data(5, 7).to("spyre")
    x.add(y, alpha=1.5), x * 1.5, x.clamp(0.25, 0.75), x.addcmul_(y, y, value=0.5), x.masked_fill(y > 1, 3.0), torch.arange(3, 8, device="spyre")
    before = compiled()
    for step in range(2, 30):
        x.add(y, alpha=step + 0.5), x * step, x.clamp(step, step + 1), x.addcmul_(y, y, value=1 / step), x.masked_fill(y > 1, -step)
        got = torch.arange(step, step + 5, device="spyre")
    assert compiled() == before
    assert got.tolist() == list(range(29, 34))


def test_a_new_shape_is_compiled_once(native):
    x = data(3, 11).to("spyre")
    x + x
    before = compiled()
    x + x
    assert compiled() == before
    y = data(3, 13).to("spyre")
    y + y, y + y, (y + y).add_(y)
    assert compiled() <= before + 2  # y + y; in place
    before = compiled()
    y + y, (y + y).add_(y)
    assert compiled() == before


def test_no_elements_and_no_dimensions(native):
    check(lambda a: (a[:0] + 1, a[:0] @ a.t(), a[:, :0].sum(1), a[:0].sum(), a[0, 0] * a, a.sum() + a.mean()), X)


def test_autograd_through_native_ops():
    grads = []
    for device in ("cpu", "spyre"):
        x, w = X.clone().to(device).requires_grad_(), Y.clone().to(device).requires_grad_()
        ((x @ w.t()).relu().softmax(-1) * x[:, :4]).sum().backward()
        grads.append((x.grad.cpu(), w.grad.cpu()))
    for expected, got in zip(*grads, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def test_refusals_name_the_op_and_the_switch(fresh_python):
    out = fresh_python(
        """
        import torch
        x = torch.ones(2, 3, device="spyre")
        print((x + x).sum().item())
        try:
            torch.nn.functional.max_pool2d(x[None], 2, ceil_mode=True)
        except NotImplementedError as e:
            assert all(w in str(e) for w in ("max_pool2d", "[1, 2, 3]", "Float", "SPYRE_FALLBACK")), e
            print("refused")
        """,
        SPYRE_FALLBACK="error",
    )
    assert out.split() == ["12.0", "refused"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.float16, torch.float32])
@pytest.mark.parametrize("numbers", [(3.1,), (0.5, 3.9), (0, 10, 2.5), (0, 9, 2.5), (7, 0, -2), (2, 2)])
def test_arange_has_torchs_length_and_numbers(numbers, dtype):
    expected = torch.arange(*numbers, dtype=dtype)
    torch.testing.assert_close(torch.arange(*numbers, dtype=dtype, device="spyre").cpu(), expected)
