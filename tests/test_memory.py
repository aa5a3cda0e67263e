"""Device memory, its statistics, and pinned host memory."""

import gc
import threading

import pytest
import torch

MB = 1 << 20


def test_statistics_follow_allocations():
    gc.collect()
    before = torch.spyre.memory_allocated()
    torch.spyre.reset_peak_memory_stats()
    x = torch.empty(4 * MB, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() - before == 8 * MB
    assert torch.spyre.memory_reserved() >= torch.spyre.memory_allocated()
    del x
    assert torch.spyre.memory_allocated() == before
    assert torch.spyre.max_memory_allocated() >= before + 8 * MB and torch.spyre.max_memory_reserved() > 0
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before
    stats = torch.spyre.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["num_ooms"] >= 0
    torch.spyre.reset_accumulated_memory_stats()
    assert torch.spyre.memory_stats()["allocated_bytes.all.allocated"] == 0


def test_accelerator_memory_api_agrees():
    x = torch.ones(1000, device="spyre")  # noqa: F841
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
    assert torch.accelerator.max_memory_allocated() == torch.spyre.max_memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.spyre.memory_reserved()
    free, total = torch.spyre.mem_get_info()
    assert 0 < free < total == torch.spyre.get_device_properties().total_memory
    assert (free, total) == torch.accelerator.get_memory_info()


def test_accounting_counts_device_bytes():
    """int64 is held as int32; rows are padded to sticks."""
    gc.collect()
    before = torch.spyre.memory_allocated()
    x = torch.zeros(MB, dtype=torch.int64, device="spyre")
    assert torch.spyre.memory_allocated() - before == 4 * MB
    assert x.untyped_storage().nbytes() == 8 * MB


def test_empty_cache_gives_memory_back():
    x = torch.empty(64 * MB, dtype=torch.int8, device="spyre")
    del x
    reserved = torch.spyre.memory_reserved()
    torch.spyre.empty_cache()
    assert torch.spyre.memory_reserved() < reserved


def test_out_of_memory_is_torchs_error_and_leaves_the_device_usable():
    free, total = torch.spyre.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError, match="(?i)memory"):
        torch.empty(total + 1, dtype=torch.int8, device="spyre")
    assert torch.spyre.memory_stats()["num_ooms"] >= 1
    assert torch.ones(3, device="spyre").sum().item() == 3


def test_memory_summary():
    assert "allocated_bytes" in torch.spyre.memory_summary() and "spyre:0" in torch.spyre.memory_summary(
        0, abbreviated=True
    )


def test_allocations_above_2_gb():
    x = torch.empty(5 * 2**29, dtype=torch.int8, device="spyre")  # 2.5 GB; pages are committed when written
    x[-3:] = torch.tensor([1, 2, 3], dtype=torch.int8)
    x[2**31 - 1 : 2**31 + 1] = 7
    assert x[-4:].cpu().tolist()[1:] == [1, 2, 3] and x[2**31 - 1 : 2**31 + 1].cpu().tolist() == [7, 7]


def test_threads_under_memory_pressure():
    """The allocator's lock is never held while the GIL is wanted."""
    errors = []

    def work(seed: int) -> None:
        try:
            for i in range(60):
                x = torch.full((1000 + 37 * ((seed + i) % 50),), float(seed), device="spyre")
                if i % 10 == 0:
                    torch.spyre.empty_cache()
                assert x.cpu().eq(seed).all()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    [t.start() for t in threads]
    [t.join(timeout=120) for t in threads]
    assert not errors and not any(t.is_alive() for t in threads)


def test_data_pointer_is_not_a_host_address():
    x = torch.ones(4, device="spyre")
    maps = open("/proc/self/maps").read().splitlines()
    inside = [m for m in maps if int(m.split("-")[0], 16) <= x.data_ptr() < int(m.split()[0].split("-")[1], 16)]
    assert inside and all(m.split()[1].startswith("---") for m in inside)


def test_pinned_memory():
    a = torch.empty(1000, pin_memory=True)
    assert a.is_pinned() and not torch.empty(3).is_pinned()
    b = torch.arange(1000.0).pin_memory()
    assert b.is_pinned() and b[10:20].is_pinned()
    d = b.to("spyre", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(d, non_blocking=True)
    torch.spyre.synchronize()
    assert torch.equal(back, torch.arange(1000.0))
    with pytest.raises(RuntimeError, match="pin"):
        torch.empty(3, device="spyre", pin_memory=True)
    torch.accelerator.memory.empty_host_cache()


def test_freed_pinned_buffer_is_not_reused_while_a_copy_reads_it():
    for value in range(30):
        source = torch.full((100_000,), float(value)).pin_memory()
        d = source.to("spyre", non_blocking=True)
        del source
        torch.full((100_000,), -1.0).pin_memory()
        assert d.cpu().eq(value).all()


def test_dataloader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        assert batch.is_pinned()


def test_a_tensor_that_can_not_grow_keeps_its_sizes():
    x = torch.arange(6.0, device="spyre").view(2, 3)
    with pytest.raises(torch.OutOfMemoryError):
        x.resize_(1 << 19, 1 << 19)
    assert x.shape == (2, 3) and x.tolist() == [[0, 1, 2], [3, 4, 5]]
