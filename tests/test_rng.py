"""Random numbers: one generator per device, repeatable by seed and by state."""

import pytest
import torch


def draws():
    return [
        torch.randn(5, device="spyre"),
        torch.rand(5, device="spyre"),
        torch.randint(0, 100, (5,), device="spyre"),
        torch.randperm(20, device="spyre"),
        torch.empty(5, device="spyre").uniform_(),
        torch.bernoulli(torch.full((20,), 0.5, device="spyre")),
        torch.multinomial(torch.ones(10, device="spyre"), 4),
        torch.nn.functional.dropout(torch.ones(50, device="spyre"), 0.5),
        torch.rand_like(torch.ones(3, device="spyre")),
        torch.normal(torch.zeros(3, device="spyre"), 1.0),
        torch.native_dropout(torch.ones(20, device="spyre"), 0.5, True)[0],
    ]


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.spyre.manual_seed, torch.spyre.manual_seed_all])
def test_the_same_seed_gives_the_same_numbers(seed):
    seed(7)
    first = [t.cpu() for t in draws()]
    seed(7)
    second = [t.cpu() for t in draws()]
    third = [t.cpu() for t in draws()]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, third, strict=True))


def test_state_roundtrip_and_initial_seed():
    torch.spyre.manual_seed(11)
    assert torch.spyre.initial_seed() == 11
    torch.randn(3, device="spyre")
    state = torch.spyre.get_rng_state()
    a = torch.randn(3, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.randn(3, device="spyre").cpu(), a)
    states = torch.spyre.get_rng_state_all()
    assert len(states) == torch.spyre.device_count()
    torch.spyre.set_rng_state_all(states)
    with pytest.raises((RuntimeError, TypeError)):
        torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_seed_differs_each_time():
    torch.spyre.seed()
    a = torch.spyre.initial_seed()
    torch.spyre.seed_all()
    assert torch.spyre.initial_seed() != a


def test_own_generator():
    g = torch.Generator(device="spyre")
    g.manual_seed(5)
    a = torch.randn(4, device="spyre", generator=g).cpu()
    b = torch.randn(4, device="spyre", generator=g).cpu()
    g.manual_seed(5)
    assert torch.equal(torch.randn(4, device="spyre", generator=g).cpu(), a) and not torch.equal(a, b)
    assert g.device.type == "spyre" and torch.equal(g.clone_state().get_state(), g.get_state())


def test_fork_rng():
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="spyre"):
        a = torch.randn(3, device="spyre").cpu()
    assert torch.equal(torch.randn(3, device="spyre").cpu(), a)


def test_drawing_on_the_device_leaves_the_cpu_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    draws()
    assert torch.equal(torch.rand(3), expected)


def test_distribution_is_plausible():
    x = torch.randn(20_000, device="spyre").cpu()
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05


def test_generators_of_another_device_are_refused():
    with pytest.raises(RuntimeError, match="expected a generator of spyre:0, not of cpu"):
        torch.rand(3, device="spyre", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="expected a generator of spyre:0, not of cpu"):
        torch.ones(3, device="spyre").normal_(generator=torch.Generator())
    assert torch.rand(3, device="spyre", generator=torch.Generator("spyre")).shape == (3,)
