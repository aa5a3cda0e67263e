"""The device as PyTorch sees it: names, selection, autoload, forks, hooks."""

import copy
import os

import pytest
import torch

import torch_spyre


def test_first_light():
    assert torch.ones(3, device="spyre").cpu().tolist() == [1.0, 1.0, 1.0]


def test_names():
    from torch_spyre.constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME

    assert (DEVICE_NAME, DISTRIBUTED_BACKEND_NAME) == ("spyre", "spyreccl")
    assert torch._C._get_privateuse1_backend_name() == "spyre"
    assert torch.spyre.get_device_name()
    for name in """is_available is_initialized device_count current_device set_device device device_of init synchronize get_device_name
        get_device_properties get_device_capability mem_get_info manual_seed manual_seed_all seed seed_all initial_seed get_rng_state
        set_rng_state get_rng_state_all set_rng_state_all Stream Event stream current_stream default_stream set_stream memory_allocated
        max_memory_allocated memory_reserved max_memory_reserved memory_stats reset_peak_memory_stats reset_accumulated_memory_stats
        empty_cache memory_summary get_amp_supported_dtype fallback_counts""".split():
        assert callable(getattr(torch.spyre, name)), name


def test_any_other_name_comes_from_the_extension():
    from torch.spyre import SpyreTensorLayout, get_device_dtype

    assert SpyreTensorLayout is torch_spyre._C.SpyreTensorLayout
    assert get_device_dtype(torch.float16) == torch_spyre._C.DataFormats.SEN169_FP16
    with pytest.raises(AttributeError, match="torch.spyre"):
        torch.spyre.no_such_name


def test_properties_come_from_the_description():
    p = torch.spyre.get_device_properties()
    assert p.name and p.multi_processor_count == 32
    assert p.total_memory > 2**30 and p.scratchpad_bytes == 2 * 2**20 and p.clock > 0


def test_import_starts_nothing_and_first_operation_starts_the_runtime(fresh_python):
    out = fresh_python("""
        import torch
        hasattr(torch.spyre, "_C"); torch.spyre.device_count(); torch.spyre.current_device(); torch.spyre.is_available()
        torch.manual_seed(3); torch.spyre.get_rng_state(); torch.spyre.memory_allocated(); torch.spyre.get_device_properties()
        torch.spyre.synchronize(); torch.accelerator.current_accelerator(); torch.spyre.current_stream(); torch.spyre.empty_cache()
        print(torch.spyre.is_initialized())
        torch.ones(1, device="spyre")
        print(torch.spyre.is_initialized())
    """)
    assert out.split() == ["False", "True"]


def test_autoload_is_light(fresh_python):
    out = fresh_python(
        "import torch, sys; print('torch._inductor.codegen.common' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    assert out == "False False"


def test_autoload_by_hand_twice(fresh_python):
    out = fresh_python(
        """
        import torch
        assert not hasattr(torch, "spyre")
        import torch_spyre
        torch_spyre._autoload(); torch_spyre._autoload()
        print(torch.ones(2, device="spyre").sum().item())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert out.endswith("2.0")


def test_import_of_the_package_before_torch(fresh_python):
    assert fresh_python("import torch_spyre, torch; print(torch.zeros(2, device='spyre').tolist())") == "[0.0, 0.0]"


def test_autoload_tells_the_cause(fresh_python):
    out = fresh_python(
        """
        import sys
        sys.modules["torch_spyre._C"] = None
        import torch
        """,
        ok=False,
    )
    assert "registering the spyre device failed" in out and "torch_spyre._C" in out


def test_two_devices(fresh_python):
    out = fresh_python(
        """
        import torch
        assert torch.spyre.device_count() == 2
        a = torch.arange(5, device="spyre:1")
        with torch.spyre.device(1):
            assert torch.spyre.current_device() == 1
            b = torch.ones(5, device="spyre")
        assert torch.spyre.current_device() == 0 and b.device.index == 1
        with torch.spyre.device_of(a):
            assert torch.spyre.current_device() == 1
        with torch.spyre.device_of(torch.ones(1)):
            assert torch.spyre.current_device() == 0
        c = (a + b).to("spyre:0")
        assert c.device.index == 0 and c.cpu().tolist() == [1, 2, 3, 4, 5]
        try:
            c + a
        except RuntimeError as e:
            assert "same device" in str(e)
        else:
            raise SystemExit("mixing devices must raise")
        torch.spyre.set_device("spyre:1")
        print(torch.accelerator.current_device_index(), torch.spyre.memory_allocated(0) > 0, torch.spyre.memory_allocated(1) > 0)
        """,
        SPYRE_DEVICES="0,1",
    )
    assert out == "1 True True"


def test_local_rank_selects_the_first_device(fresh_python):
    assert fresh_python("import torch; print(torch.spyre.current_device())", AIU_WORLD_SIZE="4", LOCAL_RANK="2") == "2"


def test_malformed_device_list_gives_no_device_and_tells_why(fresh_python):
    out = fresh_python(
        """
        import torch
        assert torch.spyre.device_count() == 0 and not torch.spyre.is_available()
        try:
            torch.ones(1, device="spyre")
        except RuntimeError as e:
            print(e)
        """,
        SPYRE_DEVICES="zero",
    )
    assert "spyre" in out.lower()


def test_index_out_of_range_names_the_way_out():
    with pytest.raises(RuntimeError, match="SPYRE_DEVICES"):
        torch.ones(1, device="spyre:7")
    with pytest.raises(RuntimeError, match="SPYRE_DEVICES"):
        torch.spyre.set_device(9)


def test_fork_gets_a_clear_error_and_does_not_hang(fresh_python):
    out = fresh_python("""
        import os, sys, torch
        x = torch.ones(3, device="spyre")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                torch.ones(1, device="spyre")
            except RuntimeError as e:
                code = 0 if "spawn" in str(e) else 2
            del x
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), x.sum().item())
    """)
    assert out.endswith("0 3.0")


def test_accelerator_api():
    assert torch.accelerator.current_accelerator().type == "spyre"
    assert torch.accelerator.device_count() == torch.spyre.device_count()
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()
    assert torch.accelerator.is_available()
    assert torch.float64 not in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float16 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_tensor_and_module_methods():
    t = torch.arange(4).spyre()
    assert t.is_spyre and t.device.type == "spyre" and not t.cpu().is_spyre
    m = torch.nn.Linear(3, 2)
    expected = m(torch.ones(1, 3))
    assert m.spyre().weight.is_spyre
    torch.testing.assert_close(m.to("spyre")(torch.ones(1, 3).spyre()).cpu(), expected)
    assert next(m.cpu().parameters()).device.type == "cpu"


def test_load_model_to_spyre_keeps_ties():
    from torch_spyre.model_utils import load_model_to_spyre

    m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    m[1].weight = m[0].weight
    m = load_model_to_spyre(m.double(), dtype=torch.float16)
    assert m[1].weight is m[0].weight and m[0].weight.is_spyre and m[0].weight.dtype == torch.float16
    assert load_model_to_spyre(torch.nn.Linear(2, 2).double()).weight.dtype == torch.float32


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor(1.5), torch.arange(3), torch.ones(2, 3).half(), torch.empty(0, 2), torch.linspace(0, 1, 2000)],
)
def test_repr_prints_the_values(tensor):
    text = repr(tensor.spyre())
    inside = repr(tensor)
    assert "device='spyre:0'" in text
    assert (
        text.replace(" ", "")
        .replace("\n", "")
        .startswith(inside.replace(" ", "").replace("\n", "")[: 10 if tensor.numel() else 9])
    )
    assert "requires_grad=True" in repr(torch.ones(1, device="spyre", requires_grad=True))
    assert "Parameter" in repr(torch.nn.Parameter(torch.ones(1, device="spyre")))


def test_printing_a_format_string():
    assert f"{torch.tensor(2.5, device='spyre'):.2f}" == "2.50"


@pytest.mark.parametrize(
    "dtype", [torch.complex64, torch.complex128, torch.float64, torch.uint16, torch.float8_e5m2fnuz]
)
def test_types_without_a_format_raise_at_allocation(dtype):
    with pytest.raises(TypeError, match="cast|CPU"):
        torch.empty(4, dtype=dtype, device="spyre")
    with pytest.raises(TypeError, match="cast|CPU"):
        torch.zeros(4, dtype=dtype).to("spyre")


def test_one_element_float64_is_held_for_gradscaler():
    t = torch.tensor(1.0 / 3.0, dtype=torch.float64).to("spyre")
    assert t.item() == 1.0 / 3.0 and t.cpu().dtype == torch.float64
    assert t.float().dtype == torch.float32


def test_int64_outside_int32_raises_on_upload():
    torch.tensor([2**31 - 1, -(2**31)]).to("spyre")
    with pytest.raises(RuntimeError, match="2147483648"):
        torch.tensor([0, 2**31]).to("spyre")


def test_collectives_and_fp8_ops_say_that_they_are_missing():
    import torch.distributed as dist

    if dist.is_available():
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        with pytest.raises(Exception, match="not built yet"):
            dist.init_process_group("cpu:gloo,spyre:spyreccl", store=dist.HashStore(), rank=0, world_size=1)
            dist.all_reduce(torch.ones(1, device="spyre"))
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    for op in (torch.ops.spyre.quantize_fp8, torch.ops.spyre.dequantize_fp8):
        with pytest.raises(NotImplementedError, match="not built yet"):
            op(torch.ones(2, device="spyre"))


def test_compile_with_the_eager_backend():
    x = torch.arange(4.0, device="spyre")
    assert torch.compile(lambda t: t * 2 + 1, backend="eager")(x).cpu().tolist() == [1, 3, 5, 7]


def test_compiler_side_names():
    from torch_spyre._inductor import config, spyre_hint
    from torch_spyre._inductor.constants import FP8_E4M3FN_MAX
    from torch_spyre._inductor.decompositions import spyre_decompositions

    assert FP8_E4M3FN_MAX == 448.0 and all(k.name() for k in spyre_decompositions)
    with config.patch(lx_planning=False, max_buckets=4):
        assert not config.lx_planning and config.max_buckets == 4
    assert config.lx_planning and config.sencores == 32 and config.dxp_lx_frac_avail == 0.2
    for name in "co_optimizing_lx_planning hbm_pool_planning global_stick_optimizer min_default_granularity layout_solver log_passes".split():
        setattr(config, name, getattr(config, name))
    with spyre_hint(anything=1):
        pass


def test_deepcopy_of_a_module():
    m = torch.nn.Linear(3, 3).spyre()
    twin = copy.deepcopy(m)
    with torch.no_grad():
        m.weight.zero_()
    assert twin.weight.abs().sum().item() > 0


def test_logging_switches(fresh_python):
    out = fresh_python(
        "import torch, logging; print(logging.getLogger('torch_spyre').getEffectiveLevel() == logging.DEBUG)",
        TORCH_LOGS="+torch_spyre",
    )
    assert out.endswith("True")
    assert fresh_python(
        "import torch, logging; print(logging.getLogger('torch_spyre').level == logging.DEBUG)", TORCH_SPYRE_DEBUG="1"
    ).endswith("True")


def test_default_devices_reach_the_constructors():
    """torch.empty is wrapped for device_layout=, and the modes that set a device know constructors by identity."""
    for device in ("meta", "spyre"):
        with torch.device(device):
            assert torch.empty(3).device.type == torch.nn.Linear(2, 2).weight.device.type == device
    torch.set_default_device("spyre")
    try:
        assert torch.empty(3).device.type == torch.zeros(3).device.type == "spyre"
    finally:
        torch.set_default_device(None)


def _makes_and_casts(x: torch.Tensor):
    return torch.empty(3).fill_(1) + x.to(torch.float16)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrapped_constructors_can_be_scripted():
    assert torch.jit.script(_makes_and_casts)(torch.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("index", [-3, 7, 1000])
def test_an_index_out_of_range_is_told_in_our_words(index):
    with pytest.raises(RuntimeError, match=f"spyre device {index} does not exist"):
        torch.spyre.set_device(index)
