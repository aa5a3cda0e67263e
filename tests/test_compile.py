"""torch.compile with the stock backend: what goes into launches, what stays outside, and that results are right."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code

from torch_spyre import compiled

OUTSIDE = torch.ops.aten.special_bessel_j0.default  # an op that the importer doesn't have
BESSEL = torch.special.bessel_j0


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def to(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return type(value)(to(v, device) for v in value) if isinstance(value, (list, tuple)) else value


def close(result, expected, tolerance=4e-3):
    if isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for r, e in zip(result, expected, strict=True):
            close(r, e, tolerance)
        return
    if not isinstance(expected, torch.Tensor):
        assert result == expected
        return
    assert result.shape == expected.shape and result.dtype == expected.dtype and result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)


def check(function, *args, **options):
    """Compiled on the device against eager on the CPU; returns the device's results and the generated code."""
    expected = function(*to(args, "cpu"))
    result, code = run_and_get_code(torch.compile(function, **options), *to(args, "spyre"))
    close(result, expected)
    return result, "\n".join(code)


def count(name):
    return counters["torch_spyre"][name]


def outside():
    return {k.removeprefix("outside "): v for k, v in counters["torch_spyre"].items() if k.startswith("outside ")}


def launches_in(code):
    return len(re.findall(r"= torch\.ops\.spyre\.launch", code))


# ------------------------------------------------------------------------------------------------------------ one launch


def test_a_graph_is_one_launch_without_asserts_and_without_generated_kernels():
    def f(x, w, b):
        return F.layer_norm(F.gelu(F.linear(x, w, b)), (24,))

    _, code = check(f, torch.randn(5, 16), torch.randn(24, 16), torch.randn(24))
    assert launches_in(code) == 1 and not outside() and not torch.spyre.fallback_counts()
    body = code[code.index("def call") :]
    assert "assert_size_stride" not in body and "empty_strided" not in body.replace("empty_strided_cpu", "")


def test_a_cpu_graph_does_not_meet_the_pass():
    f = torch.compile(lambda x: torch.sin(x) + 1)
    x = torch.randn(4)
    close(f(x), torch.sin(x) + 1)
    assert not count("graphs")


def test_a_graph_without_tensor_inputs():
    def f():
        return torch.arange(7, device="spyre", dtype=torch.float32) * 2

    result = torch.compile(f)()
    close(result, torch.arange(7, dtype=torch.float32) * 2)
    assert count("regions") == 1 and not outside()


def test_cpu_tensors_are_legal_inputs():
    scale, index = torch.tensor(3.0), torch.tensor([2, 0, 1])
    x = torch.randn(3, 4)
    f = torch.compile(lambda x, scale, index: (x * scale)[index])
    close(f(x.to("spyre"), scale, index), (x * scale)[index])
    assert count("regions") == 1


def test_a_float64_number_from_the_cpu():
    x, number = torch.randn(3, 4), torch.tensor(0.25, dtype=torch.float64)
    f = torch.compile(lambda x, number: x * number)
    close(f(x.to("spyre"), number), x * number)


def test_a_view_of_the_result_shares_its_memory():
    result, _ = check(lambda x: (lambda y: (y, y[1:], y.t()))(x + 1), torch.randn(4, 6))
    y, rest, turned = result
    assert rest.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() == turned.untyped_storage().data_ptr()
    y.zero_()
    assert rest.cpu().abs().sum() == 0 and turned.cpu().abs().sum() == 0


def test_a_view_of_an_input_stays_a_view():
    x = torch.randn(4, 6).to("spyre")
    f = torch.compile(lambda x: (x.t(), x + 1))
    view, _ = f(x)
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "shape_of",
    [
        lambda t: t,
        lambda t: t.t(),
        lambda t: t.t().contiguous().t(),
        lambda t: t[1:, 2:],
        lambda t: t[::2],
        lambda t: t[:1].expand(6, 8),
    ],
)
def test_inputs_of_any_strides(shape_of):
    base = torch.randn(6, 8)
    x, d = shape_of(base), shape_of(base.to("spyre"))
    assert d.stride() == x.stride()
    f = torch.compile(lambda x: torch.softmax(x * 2, -1) + x.sum(0))
    torch.testing.assert_close(f(d).cpu(), torch.softmax(x * 2, -1) + x.sum(0), rtol=1e-4, atol=1e-4)


def test_one_compiled_graph_serves_every_offset_and_base():
    """Dynamo guards neither: sizes and strides are the same, the places in memory are not."""
    counter = CompileCounterWithBackend("inductor")
    f = torch.compile(lambda x: x * 2 + 1, backend=counter, dynamic=False)
    base = torch.randn(10, 8)
    for d, x in (
        (base.to("spyre")[:4], base[:4]),
        (base.to("spyre")[3:7], base[3:7]),
        (base.flatten().to("spyre")[5:37].view(4, 8), base.flatten()[5:37].view(4, 8)),
        (base[:4].clone().to("spyre"), base[:4]),
    ):
        close(f(d), x * 2 + 1)
    assert counter.frame_count == 1


def test_attention_stays_whole():
    q, k, v = (torch.randn(2, 4, 10, 16).half() for _ in range(3))
    mask = torch.ones(2, 1, 10, 10, dtype=torch.bool)
    mask[1, :, :, 7:] = False

    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    with compiled.record() as launches:
        result = torch.compile(f)(*to((q, k, v, mask), "spyre"))
    expected = f(q.float(), k.float(), v.float(), mask)
    torch.testing.assert_close(result.cpu().float(), expected, rtol=2e-2, atol=2e-2)
    assert [c.op for c in launches[0].timeline.calls if "attention" in c.op]
    assert not outside()


def test_a_product_over_one_element():
    check(lambda a, b: a @ b, torch.randn(5, 1), torch.randn(1, 7))


def test_integers_and_bools():
    def f(x):
        y = x // 3 + x % 5
        return y, (y > 4) & (x != 2), y.cumsum(0)

    check(f, torch.arange(12))


def test_another_stream():
    x = torch.randn(64, 64)
    d, stream = x.to("spyre"), torch.spyre.Stream()
    torch.spyre.synchronize()
    f = torch.compile(lambda x: x @ x + 1)
    with torch.spyre.stream(stream):
        result = f(d)
    stream.synchronize()
    torch.testing.assert_close(result.cpu(), x @ x + 1, rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------------------------------------------- constants, randomness


def test_constants_of_the_graph_are_embedded():
    table = [0.5, -1.0, 2.0, 8.0]

    def f(x):
        return x * torch.tensor(table, device=x.device) + torch.tensor(3.0)

    result, code = check(f, torch.randn(3, 4))
    assert launches_in(code) == 1 and not outside()
    assert re.search(r"launch\.default\(\[arg0_1\], \[\]", code), "only x is an input of the launch"


def test_a_large_constant_is_right():
    class WithTable(torch.nn.Module):
        def forward(self, x):
            return x + torch.tensor(list(range(1000)), dtype=torch.float32, device=x.device)

    check(WithTable(), torch.randn(2, 1000))


def test_random_numbers_repeat_with_the_seed():
    f = torch.compile(lambda x: F.dropout(x, 0.5))
    x = torch.ones(1000).to("spyre")
    torch.manual_seed(5)
    first = f(x).cpu()
    second = f(x).cpu()
    torch.manual_seed(5)
    assert torch.equal(f(x).cpu(), first) and not torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 2.0} and 350 < (first > 0).sum() < 650


# ------------------------------------------------------------------------------------------------------ what stays outside


def test_a_refused_op_stays_aten_is_counted_and_divides_the_graph():
    def f(x):
        y = BESSEL(x * 2) + 1
        return y * torch.sin(x)

    _, code = check(f, torch.randn(3, 5))
    assert launches_in(code) == 2 and count("regions") == 2
    assert outside() == {"aten::special_bessel_j0": 1}
    assert "torch.ops.aten.special_bessel_j0.default(" in code


def test_regions_are_convex():
    """x feeds both sides of the op outside: the second region may not wait for itself."""

    def f(x):
        a = x + 1
        b = BESSEL(a)
        c = a * 2  # belongs to the first region or to the second, but not around b
        d = BESSEL(b + c)
        return a, b * c, d + b, d - c

    check(f, torch.randn(4, 4))
    assert count("regions") == 3


def test_views_between_regions():
    def f(x):
        a = (x + 1).view(2, 6).t()
        b = BESSEL(a[1:3])
        return b @ a.t(), a.reshape(3, 4).sum(0)

    check(f, torch.randn(3, 4))


def test_several_results_of_one_op_between_regions():
    def f(x):
        values, indices = torch.topk(x + 1, 2)
        return BESSEL(values) + values, indices

    check(f, torch.randn(3, 9))


def test_unbacked_sizes_stay_outside_and_their_readers_go_inside():
    def f(x):
        found = torch.nonzero(x > 0)
        return (found * 2 + 1).float().sum(0)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x = torch.randn(6, 5)
        compiled_f = torch.compile(f, fullgraph=True)
        close(compiled_f(x.to("spyre")), f(x))
        close(compiled_f(-x.to("spyre")), f(-x))
    assert count("regions") >= 1


def test_a_number_read_from_the_device():
    def f(x):
        n = x.sum().to(torch.int64).item()
        torch._check(n >= 0)
        torch._check(n < 50)
        return torch.arange(n, device=x.device) + x.numel()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        x = torch.full((4,), 2.0)
        close(torch.compile(f, fullgraph=True)(x.to("spyre")), f(x))


def test_a_view_as_another_dtype():
    x = torch.randn(4, 6).half()
    f = torch.compile(lambda x: (x + 1).view(torch.int16) & 0x7FFF)
    expected = (x.to("spyre") + 1).cpu().view(torch.int16) & 0x7FFF
    assert torch.equal(f(x.to("spyre")).cpu(), expected)


def test_branches_of_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: torch.sin(x) + 1, lambda x: x * 2, (x,))

    for sign in (1, -1):
        torch._dynamo.reset()
        check(f, sign * torch.rand(3, 4))


# ----------------------------------------------------------------------------------------------------------------- mutation


def test_a_cache_is_written_in_place():
    def f(cache, rows, at):
        cache[:, at] = rows
        return cache.sum()

    cache, rows, at = torch.randn(3, 8, 4), torch.randn(3, 2, 4), torch.tensor([5, 1])
    d = cache.to("spyre")
    address = d.data_ptr()
    result, code = run_and_get_code(torch.compile(f), d, rows.to("spyre"), at.to("spyre"))
    expected = f(cache, rows, at)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(d.cpu(), cache)
    assert d.data_ptr() == address
    assert launches_in("\n".join(code)) == 1 and "launch_mut" in "\n".join(code)


def test_several_mutated_inputs_read_each_other():
    def f(a, b):
        a_old = a.clone()
        a.copy_(b + 1)
        b.copy_(a_old)
        return a + b

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    da, db = a.to("spyre"), b.to("spyre")
    result = torch.compile(f)(da, db)
    close(result, f(a, b))
    close([da, db], [a, b])


def test_a_mutation_waits_for_the_last_reader_outside():
    """The old x is read by an op outside that comes behind the region which makes the new x."""

    def f(x):
        new = x * 2
        late = BESSEL(new) + BESSEL(x.t()).t()
        x.copy_(new)
        return late

    x = torch.randn(4, 3)
    d = x.to("spyre")
    result = torch.compile(f)(d)
    torch.testing.assert_close(result.cpu(), f(x), rtol=1e-4, atol=1e-4)
    close(d, x)


def test_a_mutation_with_what_was_made_outside():
    def f(x):
        x.copy_(BESSEL(x))

    x = torch.randn(4, 3)
    d = x.to("spyre")
    torch.compile(f)(d)
    f(x)
    torch.testing.assert_close(d.cpu(), x, rtol=1e-4, atol=1e-4)


def test_mutation_through_a_view_of_an_input():
    def f(x):
        x[1:3].add_(1)
        x.view(-1)[::2].mul_(2)
        return x.sum()

    x = torch.randn(4, 4)
    d = x.to("spyre")
    result = torch.compile(f)(d)
    torch.testing.assert_close(result.cpu(), f(x), rtol=1e-4, atol=1e-4)
    close(d, x)


@pytest.mark.parametrize("write", [lambda w: w.mul_(2), lambda w: w[::2].fill_(0.5), lambda w: w.copy_(w.flip(0))])
@pytest.mark.parametrize("cut", [lambda w: w[:, ::2], lambda w: w[:, :96].t(), lambda w: w[1:, 3::2]])
def test_a_product_reads_what_the_graph_wrote(write, cut):
    def function(x, w, other):
        unchanged = x @ other  # the same kernel but for the mutation
        write(w)
        return x @ w, unchanged

    matrices = [torch.randn(97, 192) for _ in range(2)]
    expected_w = cut(matrices[0].clone())
    x = torch.randn(70, expected_w.shape[0])
    w, other = (cut(m.to("spyre")) for m in matrices)
    expected = function(x, expected_w, cut(matrices[1]))
    close([r.cpu() for r in torch.compile(function)(x.to("spyre"), w, other)], expected, 2e-2)
    torch.testing.assert_close(w.cpu(), expected_w)


def test_a_mutation_waits_for_readers_of_views_that_the_importer_refuses():
    def function(y):
        seen = y.as_strided(y.shape, y.stride(), y.storage_offset())
        outside = BESSEL(seen)
        y.add_(1)
        return outside * 2, seen

    x = torch.randn(64, 4)
    device = x.to("spyre")
    close([r.cpu() for r in torch.compile(function)(device)], function(x))
    close(device.cpu(), x)


@pytest.mark.parametrize("shape", [(200, 130), (130, 130), (65, 65), (400, 70)])
@pytest.mark.parametrize("turned", [False, True])
def test_views_of_a_flat_tensor_are_changed_in_place(shape, turned):
    """Parameters flattened into one tensor: rows begin off sticks, and share them."""

    def function(x):
        x.mul_(2)
        return x.sum()

    flat = torch.randn(3 + shape[0] * shape[1])
    expected, device = flat.clone(), flat.to("spyre")
    view = lambda t: t[3:].view(shape[::-1]).t() if turned else t[3:].view(shape)  # noqa: E731
    total = torch.compile(function)(view(device))
    function(view(expected))
    torch.testing.assert_close(device.cpu(), expected)
    torch.testing.assert_close(total.cpu(), view(expected).sum(), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_of_inputs_with_gaps_have_none(dynamic):
    def function(y):
        y[:1].add_(1)
        z = y.clone()
        z[1:] = 2
        return y * 0.5, y.t(), BESSEL(z)

    base = torch.randn(101, 261)
    device = base.to("spyre")
    results = torch.compile(function, dynamic=dynamic)(device[1:, 3::2])
    for result, expected in zip(results, function(base[1:, 3::2]), strict=True):
        torch.testing.assert_close(result.cpu(), expected, rtol=4e-3, atol=4e-3)
    torch.testing.assert_close(device.cpu(), base)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_that_overlap_in_part(dynamic):
    def function(x, y):
        y.mul_(2)
        return x + 1

    base = torch.randn(10, 31)
    on_device = base.to("spyre")
    result = torch.compile(function, dynamic=dynamic)(on_device[:5], on_device[2:7])
    close(result, function(base[:5], base[2:7]))
    close(on_device, base)


def test_inputs_that_overlap():
    def f(a, b):
        a.add_(1)
        return a * b

    x = torch.randn(8, 4)
    d = x.to("spyre")
    result = torch.compile(f)(d[:5], d[3:])
    close(result, f(x[:5], x[3:]))
    close(d, x)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_strided_writes_of_one_element_and_more(size):
    def function(x):
        t = x + 1
        t[::2] = 0.5
        t[:, ::3].mul_(2)
        return t.softmax(0), t.sort(1)[0]

    check(function, torch.randn(size, size + 1), dynamic=False)


@pytest.mark.parametrize("shape", [(10, 31), (31, 10), (4, 4, 5)])
def test_writes_to_diagonals(shape):
    def function(x):
        t, u = x.clone(), x * 2
        t.diagonal(1).add_(1)
        u.diagonal(-2, -1, 0).fill_(0.5)
        return t, u, x.diagonal_scatter(x.diagonal(0, 0, -1) * 3, 0, 0, -1)

    check(function, torch.randn(shape))
    assert not outside()


def test_the_same_tensor_twice():
    x = torch.randn(4, 4)
    d = x.to("spyre")
    close(torch.compile(lambda a, b: a @ b + a)(d, d), x @ x + x, tolerance=1e-3)


# ----------------------------------------------------------------------------------------------------------- dynamic sizes


def test_a_new_length_compiles_nothing_in_python():
    counter = CompileCounterWithBackend("inductor")

    def f(x, w):
        return torch.softmax(x @ w, -1).view(-1, 2, w.shape[1] // 2).sum(1)

    g = torch.compile(f, backend=counter, dynamic=True)
    w = torch.randn(8, 6)
    for rows in (4, 10, 64, 130):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(g(x.to("spyre"), w.to("spyre")).cpu(), f(x, w), rtol=1e-3, atol=1e-3)
    assert counter.frame_count == 1 and count("graphs") == 1


def test_marked_dimensions_have_their_bounds():
    x = torch.randn(6, 4).to("spyre")
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    f = torch.compile(lambda x: x + x.shape[0])
    close(f(x), x.cpu() + 6)
    from torch_spyre._inductor import programs

    assert re.search(r'symbol s0 "s\d+" 2\.\.64', programs.text_of(list(programs._blobs)[-1]))


def test_sizes_that_are_expressions():
    def f(x):
        half = x.shape[0] // 2
        return torch.cat([x[:half] * 2, x[half:]]).reshape(x.shape[0] * x.shape[1])[: x.shape[0] + 1]

    g = torch.compile(f, dynamic=True)
    for rows in (6, 9):
        x = torch.randn(rows, 4)
        close(g(x.to("spyre")), f(x))


# ---------------------------------------------------------------------------------------------------------------- training


def test_forward_and_backward_are_launches():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
    x = torch.randn(5, 8)
    expected = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    device = torch.nn.Sequential(*model).to("spyre")
    loss = torch.compile(device)(x.to("spyre")).square().mean()
    result = torch.autograd.grad(loss, list(device.parameters()))
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r.cpu(), e, rtol=1e-3, atol=1e-4)
    assert count("graphs") >= 2


# ------------------------------------------------------------------------------------------------------ refusals and names


def test_cpp_wrapper_is_refused():
    with torch._inductor.config.patch(cpp_wrapper=True), pytest.raises(Exception, match="cpp_wrapper"):
        torch.compile(lambda x: x + 1)(torch.randn(3).to("spyre"))


def test_an_unknown_program_is_refused():
    with pytest.raises(RuntimeError, match="no compiled graph"):
        torch.ops.spyre.launch([torch.randn(3).to("spyre")], [], 0, "0123")


def test_sizes_that_the_graph_was_not_made_for_are_refused():
    x = torch.randn(3, 4).to("spyre")
    torch.compile(lambda x: x + 1, dynamic=False)(x)
    from torch_spyre._inductor import programs

    key = list(programs._blobs)[-1]
    with pytest.raises(RuntimeError):
        torch.ops.spyre.launch([torch.randn(5, 4).to("spyre")], [], 0, key)
    with pytest.raises(RuntimeError, match="more tensors"):
        torch.ops.spyre.launch([], [], 0, key)


def test_an_index_out_of_range_names_the_line():
    def f(table, index):
        return table[index] + 1

    table, index = torch.randn(4, 8).to("spyre"), torch.tensor([0, 4]).to("spyre")
    with pytest.raises(RuntimeError, match=r"aten\.index.*test_compile\.py:\d+"):
        torch.compile(f)(table, index)
        torch.spyre.synchronize()
    assert torch.isfinite(torch.compile(f)(table, index * 0).cpu()).all()


@pytest.mark.parametrize("way", ["index_put", "index_copy", "index_add", "scatter", "unused element"])
def test_an_index_of_the_graph_that_is_out_of_range(way):
    """Sizes alone tell that it is; nothing is clipped, also where nobody needs the element."""

    def function(x, v):
        index = torch.arange(6, device=x.device)
        if way == "index_put":
            return x.index_put((index,), v)
        if way == "scatter":
            return x.scatter(0, index[:, None].expand(6, 5), v)
        if way == "unused element":
            return torch.where(index[:, None] < 0, x[index], v)
        return getattr(x, way)(0, index, v)

    x, v = torch.ones(4, 5).to("spyre"), torch.ones(6, 5).to("spyre")
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        torch.compile(function)(x, v)
        torch.spyre.synchronize()


def test_what_simplifies_to_views_is_no_launch():
    _, code = check(lambda x: (torch.zeros_like(x) + x)[:, 1:], torch.randn(3, 4))
    assert launches_in(code) == 0


@pytest.mark.parametrize("seed", range(6))
def test_masks_and_indices_that_sizes_decide(seed):
    """Parts of a padding mask that are the same for every query, read whole, turned and cut; random shapes."""
    print("seed", seed)
    torch.manual_seed(seed)
    batch, length = (int(n) for n in torch.randint(1, 40, (2,)))

    def function(keep, x):
        rows, columns = torch.arange(batch, device=x.device), torch.arange(length, device=x.device)
        padding = keep[rows[:, None, None], columns[None, None, :]]  # [batch, 1, length]
        causal = columns[:, None] >= columns[None, :]
        whole = torch.where(padding & (columns[:, None] >= 0), 0.0, -1.0).expand(batch, length, length)
        cut = whole.flip(-1).transpose(1, 2)[:, 1:] if length > 1 else whole
        return whole + torch.where(padding & causal, x, 2.0), cut.float() * 2, whole.half().float().sum(-1)

    check(function, torch.rand(batch, length) > 0.5, torch.randn(batch, length, length))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(7, 40, 64), (2, 5, 48, 100), (33, 384, 130)])
def test_norms_behind_products(dtype, shape):
    """Rows of a product are reduced in its kernel; the sum that is normed is returned too."""
    torch.manual_seed(1)
    *rows, depth, width = shape
    x, w = torch.randn(*rows, depth).to(dtype), (torch.randn(width, depth) / depth**0.5).to(dtype)
    b, r = torch.randn(width).to(dtype), torch.randn(*rows, width).to(dtype)

    def function(x, w, b, r):
        y = F.linear(x, w, b) + r
        return F.layer_norm(y, (width,), b, b), y, torch.softmax(y.float(), -1), y.amax(-1), y.mean(0)

    close(
        torch.compile(function)(*to((x, w, b, r), "spyre")),
        [t.to(o.dtype) for t, o in zip(function(x.float(), w.float(), b.float(), r.float()), function(x, w, b, r), strict=True)],
        1e-4 if dtype == torch.float32 else 2e-2,
    )


@pytest.mark.parametrize("depth", [16, 32, 48, 80, 96])
def test_short_heads(depth):
    """Heads that share sticks in [batch, length, heads x depth], with a padding mask, one length for all and another."""
    torch.manual_seed(depth)

    def function(q, k, v, keep):
        heads = [t.unflatten(-1, (-1, depth)).transpose(1, 2) for t in (q, k, v)]
        return F.scaled_dot_product_attention(*heads, attn_mask=keep[:, None, None]).transpose(1, 2).flatten(2)

    compiled_function = torch.compile(function, dynamic=True)
    for length, keys in ((33, 33), (5, 70)):
        q, k, v = (torch.randn(3, n, 4 * depth).half() for n in (length, keys, keys))
        keep = torch.rand(3, keys) > 0.3
        keep[:, 0] = True
        expected = function(q.float(), k.float(), v.float(), keep).half()
        torch.testing.assert_close(compiled_function(*to((q, k, v, keep), "spyre")).cpu(), expected, rtol=1e-2, atol=4e-3)


def test_the_pass_has_a_constant_identity():
    from torch_spyre import _C
    from torch_spyre._inductor.graph_pass import SpyrePass

    assert SpyrePass().uuid() == SpyrePass().uuid() is not None
    assert _C._compiler_hash() in SpyrePass().uuid()


def test_inductor_knows_the_device():
    torch.compile(lambda x: x + 1)(torch.randn(3).to("spyre"))
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._inductor.codegen.common import get_device_op_overrides, get_wrapper_codegen_for_device

    interface = get_interface_for_device("spyre")
    assert interface.Worker.current_device() == 0 and interface.Worker.get_device_properties().multi_processor_count
    assert interface.is_available() and interface.get_raw_stream(0) == 0
    overrides = get_device_op_overrides("spyre")
    assert "torch.spyre" in overrides.device_guard(0) + overrides.synchronize() + overrides.set_device(0)
    assert get_wrapper_codegen_for_device("spyre").__name__ == "Wrapper"


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, t, w: t + x @ w,
        lambda x, t, w: (t + x @ w).t(),
        lambda x, t, w: (t + x @ w)[1:],
        lambda x, t, w: (t + x @ w).unflatten(1, (5, 13)),
        lambda x, t, w: torch.relu(t + x @ w).t().unsqueeze(0).expand(2, 65, 3),
        lambda x, t, w: t.add_(x @ w) + 1,
    ],
    ids=["sum", "transposed", "rows", "columns", "expanded", "in_place"],
)
def test_outputs_have_the_strides_that_inductors_rewriting_loses(fn, dynamic):
    """A sum of a transposed tensor and a product becomes addmm, whose result is not transposed."""
    x, w = torch.randn(3, 65).half(), torch.randn(65, 65).half()
    t = torch.randn(65, 3).half().t()
    expected = fn(x.float(), t.float(), w.float())
    strides = fn(x, t.clone(), w).stride()
    y = torch.compile(fn, dynamic=dynamic)(x.to("spyre"), t.to("spyre"), w.to("spyre"))
    assert y.stride() == strides
    torch.testing.assert_close(y.cpu().float(), expected, rtol=4e-3, atol=0.1)


def test_weights_beside_each_other_keep_their_own_order():
    """Two products of one operand in a kernel, one with its columns permuted behind it."""

    def heads(x, w):
        return torch.nn.functional.linear(x, w).view(-1, 6, 64)

    def permuted(x, w):
        return torch.nn.functional.linear(x, w).view(-1, 64, 6).transpose(1, 2)

    x, a, b = torch.randn(32, 96), torch.randn(384, 96), torch.randn(384, 96)
    for fn in (lambda x, a, b: heads(x, a) * permuted(x, b), lambda x, a, b: permuted(x, b) + heads(x, a)):
        y = torch.compile(fn)(x.to("spyre"), a.to("spyre"), b.to("spyre"))
        torch.testing.assert_close(y.cpu(), fn(x, a, b), rtol=1e-4, atol=1e-2)
