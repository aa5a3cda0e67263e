"""Training: autograd, optimisers, hooks, autocast and gradient scaling."""

import pytest
import torch
import torch.nn.functional as F


def test_backward_matches_the_cpu():
    w, x = torch.randn(4, 3), torch.randn(2, 4)
    grads = []
    for device in ("cpu", "spyre"):
        a, b = (t.detach().clone().to(device).requires_grad_() for t in (w, x))
        F.gelu(b @ a).pow(2).mean().backward()
        grads.append((a.grad.cpu(), b.grad.cpu()))
    for cpu, spyre in zip(*grads, strict=True):
        torch.testing.assert_close(spyre, cpu)


def test_gradients_flow_between_devices_and_views():
    x = torch.arange(6.0, requires_grad=True)
    (x.to("spyre").view(2, 3).t()[1] * 2).sum().to("cpu").backward()
    assert x.grad.tolist() == [0, 2, 0, 0, 2, 0]


def test_hooks_and_inplace_checks():
    x = torch.ones(3, device="spyre", requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.cpu().tolist()))
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    (x * 3).sum().backward()
    assert seen == [[3, 3, 3]]
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()


def test_gradients_of_repeated_inputs():
    x = torch.tensor([3.0], device="spyre", requires_grad=True)
    (x * x * x).backward()
    assert x.grad.item() == 27


@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop]
)
def test_optimizers_match_the_cpu(optimizer):
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
        ).to(device)
        data, target = torch.randn(16, 5).to(device), torch.arange(16).remainder(2).to(device)
        o = optimizer(model.parameters(), lr=0.05)
        for _ in range(4):
            o.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            o.step()
        results.append(loss.item())
    assert results[0] == pytest.approx(results[1], rel=1e-3)


def test_modules_forward():
    torch.manual_seed(0)
    cases = [
        (torch.nn.Conv2d(3, 4, 3, padding=1), torch.randn(1, 3, 6, 6)),
        (torch.nn.LayerNorm(7), torch.randn(3, 7)),
        (torch.nn.GroupNorm(2, 4), torch.randn(2, 4, 5)),
        (torch.nn.Embedding(10, 4), torch.tensor([[1, 2], [9, 0]])),
        (torch.nn.MultiheadAttention(8, 2, batch_first=True), (torch.randn(1, 5, 8),) * 3),
        (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.randn(1, 5, 8)),
        (torch.nn.LSTM(4, 6), torch.randn(3, 1, 4)),
        (torch.nn.GRU(4, 6), torch.randn(3, 1, 4)),
        (torch.nn.Softmax(-1), torch.randn(2, 70)),
        (torch.nn.MaxPool2d(2), torch.randn(1, 2, 4, 4)),
    ]
    for module, args in cases:
        args = args if isinstance(args, tuple) else (args,)
        expected = module(*args)
        result = module.to("spyre")(*[a.to("spyre") for a in args])
        expected, result = (r[0] if isinstance(r, tuple) else r for r in (expected, result))
        torch.testing.assert_close(result.cpu(), expected, msg=lambda m, module=module: f"{module}: {m}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    a, b = torch.randn(8, 8, device="spyre"), torch.randn(8, 8, device="spyre")
    with torch.autocast("spyre", dtype=dtype):
        assert torch.is_autocast_enabled("spyre") and torch.get_autocast_dtype("spyre") == dtype
        c = a @ b
        assert c.dtype == dtype
        assert F.linear(a, b).dtype == dtype
        assert (
            c.exp().dtype == torch.float32
            and F.softmax(c, -1).dtype == torch.float32
            and c.sum().dtype == torch.float32
        )
        assert torch.addcmul(a, c, c).dtype == torch.float32
        assert torch.cat([a, c]).dtype == torch.float32
        assert F.layer_norm(c, (8,)).dtype == torch.float32
        with torch.autocast("spyre", enabled=False):
            assert (a @ b).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            F.binary_cross_entropy(torch.sigmoid(a), torch.ones_like(a))
    assert (a @ b).dtype == torch.float32
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_autocast_of_another_dtype_is_switched_off():
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("spyre", dtype=torch.float32):
        assert not torch.is_autocast_enabled("spyre")


def test_autocast_training_with_gradient_scaling():
    model = torch.nn.Linear(4, 2).spyre()
    o = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("spyre", init_scale=128.0)
    losses = []
    x, y = torch.randn(8, 4).spyre(), torch.randn(8, 2).spyre()
    for _ in range(4):
        o.zero_grad()
        with torch.autocast("spyre", dtype=torch.float16):
            loss = F.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(o)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and scaler.get_scale() == 128.0
    o.zero_grad()
    (model.weight.sum() * float("inf")).backward()
    before = model.weight.detach().cpu()
    scaler._per_optimizer_states.clear()
    scaler.unscale_(o)
    scaler.step(o)
    scaler.update()
    assert torch.equal(model.weight.detach().cpu(), before) and scaler.get_scale() == 64.0


def test_checkpointing_restores_random_state():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(50, device="spyre", requires_grad=True)
    torch.manual_seed(0)
    checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=False).sum().backward()
    torch.manual_seed(0)
    assert torch.equal(F.dropout(torch.ones(50, device="spyre"), 0.5).cpu(), x.grad.cpu())


def test_multithreaded_backward():
    x = torch.ones(4, device="spyre", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True) + x
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), torch.ones(4).cos() + 1)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_match_the_cpu(kind):
    x = torch.randn(5, 2, 3)
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = kind(3, 4, num_layers=2, bidirectional=True).to(device)
        out, _ = model(x.to(device))
        (out * out).sum().backward()
        results.append([out.detach().cpu(), *(p.grad.cpu() for p in model.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_running_statistics_follow_training_and_stay_in_evaluation():
    """torch's schema hides that batch normalisation writes them."""
    x = torch.randn(4, 3, 5) * 2 + 1
    norms = [torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3).to("spyre")]
    for norm in norms:
        norm(x.to(norm.weight.device))
        norm(2 * x.to(norm.weight.device))
    for cpu, spyre in zip(norms[0].buffers(), norms[1].buffers(), strict=True):
        torch.testing.assert_close(spyre.cpu(), cpu)
    before = norms[1].running_mean.clone()
    torch.testing.assert_close(norms[1].eval()(x.to("spyre")).cpu(), norms[0].eval()(x))
    assert torch.equal(norms[1].running_mean, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("weighted", [True, False])
def test_gradients_of_rms_norm_match_the_cpu(dtype, weighted):
    x, w, g = torch.randn(3, 2, 5), torch.randn(2, 5), torch.randn(3, 2, 5)
    grads = []
    for device, kind in (("cpu", torch.float32), ("spyre", dtype)):
        a, b = (t.clone().to(device, kind).requires_grad_() for t in (x, w))
        F.rms_norm(a, (2, 5), b if weighted else None, 1e-5).backward(g.to(device, kind))
        grads.append([t.grad.cpu().float() for t in (a, b) if t.grad is not None])
    for cpu, spyre in zip(*grads, strict=True):
        torch.testing.assert_close(spyre, cpu, **({} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}))
