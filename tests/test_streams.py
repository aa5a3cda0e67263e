"""Streams, events and the order between them."""

import pytest
import torch

import torch_spyre.streams


def test_stream_names():
    s = torch_spyre.streams.Stream(priority=-1)
    assert s.priority() == -1 and s.device() == torch.device("spyre:0") and isinstance(s.id(), int)
    assert s.id() != torch.spyre.default_stream().id()
    assert s.query() is True
    s.synchronize()
    assert isinstance(s, torch.Stream) and "spyre" in repr(s)


def test_stream_context_nests_and_restores():
    a, b = torch.spyre.Stream(), torch.spyre.Stream()
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    with a:
        assert torch.spyre.current_stream() == a
        with torch.spyre.stream(b):
            assert torch.spyre.current_stream() == b
            with torch.spyre.stream(None):
                assert torch.spyre.current_stream() == b
            with a, a:
                assert torch.spyre.current_stream() == a
            assert torch.spyre.current_stream() == b
        assert torch.spyre.current_stream() == a
    assert torch.spyre.current_stream() == torch.spyre.default_stream()


def test_set_stream():
    s = torch.spyre.Stream()
    torch.spyre.set_stream(s)
    try:
        assert torch.accelerator.current_stream() == s
    finally:
        torch.spyre.set_stream(torch.spyre.default_stream())


def test_generic_stream_and_event_classes():
    s, e, f = (
        torch.Stream(device="spyre"),
        torch.Event(device="spyre", enable_timing=True),
        torch.Event(device="spyre", enable_timing=True),
    )
    e.record(s)
    with s:
        torch.ones(1 << 16, device="spyre").cpu()
    f.record(s)
    f.synchronize()
    assert e.query() and f.query() and e.elapsed_time(f) > 0
    torch.accelerator.set_stream(s)
    assert torch.accelerator.current_stream() == s
    torch.accelerator.set_stream(torch.spyre.default_stream())
    torch.accelerator.synchronize()


def test_elapsed_time_is_modelled_and_repeats():
    x = torch.ones(1 << 18)

    def once():
        start, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
        start.record()
        x.to("spyre")
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    assert once() == pytest.approx(once(), rel=1e-9)


def test_events_without_timing_refuse_elapsed_time():
    a, b = torch.spyre.Event(), torch.spyre.Event()
    a.record(), b.record()
    with pytest.raises((RuntimeError, ValueError)):
        a.elapsed_time(b)


def test_event_of_the_current_stream():
    e = torch.spyre.current_stream().record_event()
    torch.spyre.current_stream().wait_event(e)
    e.wait()
    e.synchronize()
    assert e.query()
    assert torch.spyre.Event().query()  # never recorded: nothing to wait for


def test_wait_across_streams_orders_work():
    producer, consumer = torch.spyre.Stream(), torch.spyre.Stream()
    for value in range(20):
        with producer:
            x = torch.full((257,), float(value), device="spyre")
        consumer.wait_stream(producer)
        with consumer:
            y = x.clone()
            x.record_stream(consumer)
        del x
        producer.wait_stream(consumer)
        assert (y.cpu() == value).all()


def test_streams_are_per_thread():
    import threading

    seen = []
    with torch.spyre.Stream():
        t = threading.Thread(target=lambda: seen.append(torch.spyre.current_stream() == torch.spyre.default_stream()))
        t.start(), t.join()
    assert seen == [True]


def test_wrong_kind_of_stream_is_refused():
    with pytest.raises(RuntimeError):
        torch.Stream(stream_id=12345, device_index=0, device_type=torch_spyre._C._device_type).synchronize()
