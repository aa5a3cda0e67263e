"""SpyreTensorLayout and the tensors made with it: the worked values of docs/interface.md section 3."""

import pickle

import pytest
import torch

from torch_spyre import _C
from torch_spyre._C import DataFormats, ElementArrangement, SpyreTensorLayout

F16 = torch.float16
WORKED = [
    ((1024, 256), F16, [4, 1024, 64], [64, 256, 1]),
    ((1000, 200), F16, [4, 1000, 64], [64, 200, 1]),
    ((5, 100, 150), F16, [100, 3, 5, 64], [150, 64, 15000, 1]),
    ((1, 1, 4096), torch.float32, [1, 128, 1, 32], [-1, 32, -1, 1]),
    ((1, 3, 128), F16, [3, 2, 1, 64], [128, 64, -1, 1]),
    ((), F16, [1, 64], [-1, -1]),
    ((50, 10, 200), F16, [10, 4, 50, 64], [200, 64, 2000, 1]),
    ((256,), torch.int64, [8, 32], [32, 1]),
    ((60,), F16, [1, 64], [64, 1]),
]


@pytest.mark.parametrize(("size", "dtype", "device_size", "stride_map"), WORKED)
def test_worked_values(size, dtype, device_size, stride_map):
    layout = SpyreTensorLayout(list(size), dtype)
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)
    assert torch.empty(size, dtype=dtype, device="spyre").device_tensor_layout() == layout


def test_dim_order_and_sparse():
    layout = SpyreTensorLayout([5, 100, 150], [15000, 150, 1], F16, [1, 0, 2])
    assert (layout.device_size, layout.stride_map) == ([5, 3, 100, 64], [15000, 64, 150, 1])
    sparse = SpyreTensorLayout([4, 3], [3, 1], F16, [0, 1, -1])
    assert sparse.stride_map[-1] == -1 and sparse.device_size[-1] == 64


def test_enums():
    values = dict(SEN169_FP16=0, IEEE_FP32=1, INVALID=2, SEN143_FP8=3, SEN152_FP8=4, SEN153_FP9=5, SENINT2=6, SENINT4=7, SENINT8=8, SENINT16=9, SENINT24=10,
                  IEEE_INT64=11, IEEE_INT32=12, SENUINT32=13, SENUINT2=14, IEEE_FP16=15, BOOL=16, BFLOAT16=17, SEN18F_FP24=18)  # fmt: skip
    assert {k: int(v) for k, v in DataFormats.__members__.items()} == values
    arrangements = dict(STANDARD=0, DL16_TO_FP32=1, QFP8CH=2, EXX2=3, FP32_TO_DL16=4, QFP8WT=5)
    assert {k: int(v) for k, v in ElementArrangement.__members__.items()} == arrangements
    assert DataFormats.SEN169_FP16.elems_per_stick() == 64 and DataFormats.IEEE_FP32.elems_per_stick() == 32
    with pytest.raises(RuntimeError):
        DataFormats.INVALID.elems_per_stick()


def test_device_formats():
    expected = {
        torch.float16: "SEN169_FP16", torch.bfloat16: "SEN169_FP16", torch.bool: "SEN169_FP16", torch.float32: "IEEE_FP32", torch.int64: "IEEE_INT32",
        torch.int32: "IEEE_INT32", torch.int8: "SENINT8", torch.int16: "SENINT16", torch.uint8: "SENUINT32", torch.float8_e4m3fn: "SEN143_FP8",
        torch.float8_e5m2: "SEN152_FP8", torch.float8_e5m2fnuz: "SEN152_FP8",
    }  # fmt: skip
    assert {d: _C.get_device_dtype(d).name for d in expected} == expected
    assert (
        _C.get_elem_in_stick(F16) == 64
        and _C.get_elem_in_stick(torch.float32) == 32
        and _C.get_elem_in_stick(torch.int8) == 128
    )
    with pytest.raises(TypeError):
        _C.get_device_dtype(torch.complex64)


def test_value_semantics():
    a, b = SpyreTensorLayout([3, 100], F16), SpyreTensorLayout(host_size=[3, 100], dtype=F16)
    assert a == b and hash(a) == hash(b) and a != SpyreTensorLayout([3, 101], F16) and a != "layout"
    assert pickle.loads(pickle.dumps(a)) == a and "64" in repr(a)
    assert (
        a.elems_per_stick() == 64
        and a.device_dtype == DataFormats.SEN169_FP16
        and a.element_arrangement == ElementArrangement.STANDARD
    )
    c = a.with_element_arrangement(ElementArrangement.EXX2)
    assert c.element_arrangement == ElementArrangement.EXX2 and c != a
    explicit = SpyreTensorLayout(device_size=[2, 3, 64], stride_map=[64, 100, 1], device_dtype=DataFormats.SEN169_FP16)
    assert explicit == a
    with pytest.raises(AttributeError):
        a.device_size = [1]


def test_more_than_six_dimensions():
    with pytest.raises(RuntimeError, match="6"):
        SpyreTensorLayout([1] * 7, F16)
    x = torch.arange(128.0).reshape(2, 2, 2, 2, 2, 2, 2)
    d = x.to("spyre")
    assert torch.equal(d.cpu(), x) and d.device_tensor_layout() == SpyreTensorLayout([128], torch.float32)


def test_tensors_with_a_layout():
    x = torch.arange(12_000).remainder(500).reshape(60, 200).half()
    padded = SpyreTensorLayout([4, 64, 64], [64, 200, 1], DataFormats.SEN169_FP16)
    d = x.to("spyre", device_layout=padded)
    assert d.device_tensor_layout() == padded and torch.equal(d.cpu(), x)
    assert x.to(device_layout=padded).is_spyre
    e = torch.empty(60, 200, dtype=F16, device_layout=padded)
    e.copy_(x)
    assert e.is_spyre and torch.equal(e.cpu(), x) and _C.get_spyre_tensor_layout(e) == padded
    f = torch.empty((60, 200), dtype=F16, device="spyre", device_layout=padded, requires_grad=True)
    assert f.requires_grad
    assert torch.equal(d[3:7, 50:150].cpu(), x[3:7, 50:150])
    assert torch.equal(d.float().to("spyre", F16, device_layout=padded).cpu(), x)
    with pytest.raises(ValueError, match="device_layout"):
        torch.empty(60, 200, device="cpu", device_layout=padded)
    with pytest.raises(RuntimeError, match="layout|format"):
        torch.empty(60, 200, dtype=torch.float32, device_layout=padded)
    with pytest.raises(RuntimeError):
        torch.empty(61, 999, dtype=F16, device_layout=padded)


def test_layout_functions():
    x = torch.arange(600).half().reshape(6, 100)
    layout = SpyreTensorLayout([6, 100], [100, 1], F16, [1, 0])
    d = _C.to_with_layout(x, layout)
    assert torch.equal(d.cpu(), x) and _C.get_spyre_tensor_layout(d) == layout
    _C.set_spyre_tensor_layout(d, SpyreTensorLayout([6, 100], F16))
    assert torch.equal(d.cpu(), x) and d.device_tensor_layout() == SpyreTensorLayout([6, 100], F16)
    with pytest.raises(RuntimeError, match="view"):
        _C.set_spyre_tensor_layout(d[1:], SpyreTensorLayout([5, 100], F16))
    assert _C.empty_with_layout([6, 100], layout, F16).shape == (6, 100)
    assert _C.spyre_empty_with_layout([6, 100], [100, 1], F16, layout).device_tensor_layout() == layout
    assert torch.equal(_C.reinterpret_tensor(d, [3, 2], [2, 1], 100).cpu(), x.flatten()[100:106].view(3, 2))
    y = _C.as_strided_with_layout(d, [6, 100], [100, 1], 0, layout)
    assert d.device_tensor_layout() == layout and torch.equal(y.cpu(), x) and torch.equal(d.cpu(), x)
    z = _C.reinterpret_tensor_with_layout(d, [6, 100], [100, 1], 0, SpyreTensorLayout([6, 100], F16))
    assert torch.equal(z.cpu(), x)


def test_fake_and_foreign_tensors_have_no_layout():
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert torch.ones(2).device_tensor_layout() is None
    with FakeTensorMode():
        assert torch.empty(2, device="spyre").device_tensor_layout() is None


def test_encode_constant():
    assert _C.encode_constant(1.0, DataFormats.IEEE_FP32) == 0x3F800000
    assert _C.encode_constant(1.0, DataFormats.SEN169_FP16) == 31 << 9
    assert _C.encode_constant(1e30, DataFormats.SEN169_FP16) == 0x7FFE
    assert _C.encode_constant(-1, DataFormats.IEEE_INT32) == 0xFFFFFFFF
    with pytest.raises(NotImplementedError):
        _C.encode_constant(1.0, DataFormats.SENINT2)


def test_downcast_warning():
    assert _C.get_downcast_warning() is False
    _C.set_downcast_warning(True)
    try:
        assert _C.get_downcast_warning() is True
        with pytest.warns(UserWarning, match="int32"):
            torch.arange(3).to("spyre")
    finally:
        _C.set_downcast_warning(False)


def test_device_functions_of_the_extension():
    assert _C.device_count() == torch.spyre.device_count() and _C.current_device() == 0
    _C.set_device(0)
    _C.synchronize()
    assert _C.create_stream(priority=1).device.type == "spyre" and _C.create_generator().device.type == "spyre"
