"""Ops without a kernel run on the CPU: right, counted, told, and refusable."""

import warnings

import pytest
import torch

from torch_spyre.ops.fallbacks import FallbackWarning


def dev(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device="spyre")


def test_counts():
    torch.spyre.reset_fallback_counts()
    x = dev(1, 2, 3)
    x.digamma()
    x.digamma()
    x + x
    x[1:].clone().t().expand(2, 2).contiguous()
    x.half().cpu()
    assert torch.spyre.fallback_counts() == {"aten::digamma.out": 2}


def test_warned_once_per_op(fresh_python):
    out = fresh_python("""
        import torch, warnings
        from torch_spyre.ops.fallbacks import FallbackWarning
        x = torch.ones(2, 3, device="spyre")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            x.digamma(); x.digamma(); x.lgamma()
        kinds = [w for w in seen if w.category is FallbackWarning]
        assert len(kinds) == 2 and "aten::digamma.out" in str(kinds[0].message) and "[2, 3]" in str(kinds[0].message)
        warnings.simplefilter("error")
        try:
            x.erfc()
        except FallbackWarning as w:
            print("raised", x.cpu().sum().item())
    """)
    assert out == "raised 6.0"


def test_fallback_can_be_an_error(fresh_python):
    out = fresh_python(
        """
        import torch
        x = torch.ones(2, 3, device="spyre", dtype=torch.float16)
        x.t().contiguous().view(-1)[1:].zero_()
        try:
            x.digamma()
        except NotImplementedError as e:
            text = str(e)
            assert all(w in text for w in ("aten::digamma.out", "Half", "[2, 3]", "SPYRE_FALLBACK")), text
            print("refused")
        """,
        SPYRE_FALLBACK="error",
    )
    assert out == "refused"


def test_in_place_and_views_of_arguments():
    x = torch.zeros(4, 5, device="spyre")
    y = x[1:3, ::2]
    assert y.add_(1) is y
    expected = torch.zeros(4, 5)
    expected[1:3, ::2] += 1
    assert torch.equal(x.cpu(), expected)
    x.t()[0].mul_(3).sub_(1)
    expected.t()[0].mul_(3).sub_(1)
    assert torch.equal(x.cpu(), expected)


def test_arguments_that_share_memory():
    x, h = dev(*range(10)), torch.arange(10.0)
    x[2:6].add_(x[2:6]), h[2:6].add_(h[2:6])
    assert torch.equal(x.cpu(), h)
    a, b = x[:5], x[5:]
    a.copy_(b + a)
    h[:5].copy_(h[5:] + h[:5])
    assert torch.equal(x.cpu(), h)
    for t in (x, h):
        with pytest.raises(RuntimeError, match="overlap|memory location"):
            torch.add(t[:-1], t[1:], out=t[1:])
    with pytest.raises(RuntimeError):
        x[:1].expand(4).add_(1)


def test_out_arguments():
    x = dev(1, 2, 3)
    out = torch.empty(0, device="spyre")
    assert torch.add(x, 1, out=out) is out and out.cpu().tolist() == [2, 3, 4]
    wrong = torch.zeros(2, 2, device="spyre")
    with pytest.warns(UserWarning, match="resized"):
        torch.mul(x, 2, out=wrong)
    assert wrong.cpu().tolist() == [2, 4, 6]
    big = torch.zeros(3, 4, device="spyre")
    torch.exp(dev(0, 0, 0), out=big[:, 1])
    assert big.cpu().sum() == 3 and big.cpu()[:, 1].tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="dtype|cast"):
        torch.add(x, 1.5, out=torch.empty(3, dtype=torch.int32, device="spyre"))
    values, indices = torch.empty(0, device="spyre"), torch.empty(0, dtype=torch.int64, device="spyre")
    torch.sort(dev(3, 1, 2), out=(values, indices))
    assert values.cpu().tolist() == [1, 2, 3] and indices.cpu().tolist() == [1, 2, 0]


def test_kinds_of_arguments():
    x = torch.arange(12.0, device="spyre").reshape(3, 4)
    assert torch.equal(torch.cat([x, x[:1]]).cpu(), torch.cat([x.cpu(), x[:1].cpu()]))
    assert torch.equal(x[:, torch.tensor([0, 2])].cpu(), x.cpu()[:, [0, 2]])
    assert torch.equal(x[torch.tensor([2, 0], device="spyre")].cpu(), x.cpu()[[2, 0]])
    x[torch.tensor([True, False, True], device="spyre")] = 7
    assert x.cpu()[0].tolist() == [7] * 4 and x.cpu()[1].tolist() == [4, 5, 6, 7]
    assert torch.where(x > 5, x, torch.tensor(0.0)).is_spyre
    assert torch.clamp(x, min=torch.tensor(5.0, device="spyre")).cpu().min() == 5
    assert torch.equal(x.cpu() + 1, (x + torch.tensor(1.0)).cpu())
    assert torch.stack(torch.unbind(x)).is_spyre and torch.topk(x, 2).indices.is_spyre
    assert torch.equal(torch.arange(0, 5, device="spyre").cpu(), torch.arange(0, 5))
    assert (x == x).all().item() is True and torch.equal(x, x) and not torch.equal(x, x + 1)
    assert [t.cpu().sum().item() for t in torch._foreach_add([x, x], 1.0)] == [x.cpu().sum().item() + 12] * 2
    assert x.nonzero().is_spyre and x.unique().is_spyre


def test_mixed_devices_raise():
    x = dev(1, 2)
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, 2) @ x
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([x, torch.ones(2)])


def test_errors_keep_their_kind_and_name_the_op():
    with pytest.raises(RuntimeError, match="(?s)mat1 and mat2.*"):
        torch.ones(2, 3, device="spyre") @ torch.ones(2, 3, device="spyre")
    with pytest.raises((IndexError, RuntimeError), match="index 5|5 is out"):
        torch.ones(3, device="spyre")[torch.tensor([5])].cpu()
    with pytest.raises(TypeError, match="float64"):
        torch.ones(3, device="spyre").double()
    assert dev(1).sum().item() == 1  # still usable


def test_narrow_floats_without_a_cpu_kernel_are_computed_wide():
    m = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float16, device="spyre")
    assert torch.allclose(torch.linalg.cholesky(m).cpu().float(), torch.linalg.cholesky(m.cpu().float()), atol=1e-2)
    assert torch.linalg.cholesky(m).dtype == torch.float16


def test_views_never_use_the_cpu(fresh_python):
    out = fresh_python(
        """
        import torch
        x = torch.arange(24.0).half().to("spyre").view(2, 3, 4)
        for v in (x.transpose(0, 2), x.permute(2, 0, 1), x[:, 1:], x[..., ::2], x.expand(5, 2, 3, 4), x.unfold(2, 2, 1), x.diagonal(), x.reshape(6, 4),
                  x.flatten(), x.unsqueeze(0).squeeze(0), x.movedim(0, 1), x.select(1, 0), x.narrow(0, 0, 1), x.chunk(2)[1], x.split(1)[0], x.unbind()[0],
                  x.view(torch.int16), x.detach(), x.as_strided((2, 2), (1, 3)), x.mT, x.contiguous(), x.swapaxes(0, 1), x.real):
            v.clone().cpu()
        print(torch.spyre.fallback_counts())
        """,
        SPYRE_FALLBACK="error",
    )
    assert out == "{}"


def test_every_warning_has_the_category():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("ignore", FallbackWarning)
        torch.erfc(dev(1.0))


def test_random_ops_are_marked_by_tag_not_by_name():
    torch.manual_seed(0)
    a = torch.nn.functional.rrelu(dev(-1, -2), training=True).cpu()
    torch.manual_seed(0)
    assert torch.equal(a, torch.nn.functional.rrelu(dev(-1, -2), training=True).cpu())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_histc_of_integers_as_other_devices_have_it(dtype):
    """The CPU's kernel lacks integers; mixtures of experts count their tokens with it."""
    x = torch.tensor([0, 1, 1, 3, 3, 3], dtype=dtype, device="spyre")
    counts = torch.histc(x, bins=4, min=0, max=3)
    assert counts.dtype == dtype and counts.tolist() == [1, 2, 0, 3]


def test_sparse_results_are_refused_by_name():
    with pytest.raises(RuntimeError, match="_to_sparse.*holds strided tensors only"):
        torch.eye(3, device="spyre").to_sparse()
