"""What Inductor asks of a device: registered when it first asks for one (`torch.spyre.Scheduling`)."""

from typing import Any, NoReturn

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor import ir
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.scheduler import BaseScheduling
from torch._inductor.virtualized import V

import torch_spyre._inductor.config as options
from torch_spyre import device_module, streams
from torch_spyre._inductor import programs
from torch_spyre._inductor.graph_pass import SpyrePass
from torch_spyre.constants import DEVICE_NAME


class Scheduling(BaseScheduling):
    """Makes no kernels: the pass has put all work into launches and ATen calls before Inductor lowers anything."""

    def group_fn(self, sizes: Any) -> tuple[Any, ...]:
        return tuple(tuple(V.graph.sizevars.simplify(s) for s in size) for size in sizes)

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        return False

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        return False

    def can_fuse_multi_outputs_template(self, node1: Any, node2: Any) -> bool:
        return False

    def flush(self) -> None:
        pass

    def codegen_sync(self) -> None:
        pass

    def codegen_node(self, node: Any) -> NoReturn:
        origins = sorted({str(o) for n in node.get_nodes() for o in getattr(n.node, "origins", ())})
        raise NotImplementedError(
            f"Inductor wants to generate a kernel for {', '.join(origins) or node} on {DEVICE_NAME}, which only runs launches "
            "and ATen calls: please report the model; torch.compile(backend='eager') runs it"
        )


class _Wrapper:
    """What the generated module does differently: it carries the programs that it launches, and asserts no sizes."""

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        if getattr(node.op_overload, "namespace", "") == DEVICE_NAME:
            root: Any = self
            while isinstance(root, SubgraphPythonWrapperCodegen):
                root = root.parent_wrapper
            for argument in node.constant_args:
                if isinstance(argument, str):
                    root.carry(argument)
        super().generate_fallback_kernel(node)  # type: ignore[misc]

    # The launch checks in C++ what it is given, in less time than one of these asserts takes.
    def codegen_input_size_asserts(self) -> None:
        pass

    def write_assert_size_stride(self, name: str, size: str, stride: str, op_name: str) -> None:
        pass

    def memory_plan(self) -> None:
        self.memory_plan_reuse()  # type: ignore[attr-defined]  # no pools: device memory has an allocator

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, *, device: Any = None, **rest: Any) -> None:
        if (device or V.graph.get_current_device_or_throw()).type == DEVICE_NAME:
            raise NotImplementedError(f"{kernel_name}: Inductor generates no kernels for {DEVICE_NAME}")
        super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **rest)  # type: ignore[misc]


class SubgraphWrapper(_Wrapper, SubgraphPythonWrapperCodegen):
    """Of torch.cond's branches and the like."""


class Wrapper(_Wrapper, PythonWrapperCodegen):
    def __init__(self) -> None:
        self._carried: set[str] = set()
        super().__init__()

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: ir.GraphPartitionSignature | None = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            assert subgraph_name is not None and parent_wrapper is not None
            return SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return Wrapper()

    def carry(self, key: str) -> None:
        """The generated module makes this program known wherever it is loaded."""
        if key in self._carried:
            return
        if not self._carried:
            self.imports.writeline("from torch_spyre._inductor import programs as spyre_programs")
        self._carried.add(key)
        self.header.writeline(f"spyre_programs.load({key!r}, {programs.blob_of(key)!r})")


class CppWrapper(PythonWrapperCodegen):
    """cpp_wrapper and AOTInductor."""

    @staticmethod
    def create(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{DEVICE_NAME} has no C++ wrapper (cpp_wrapper, AOTInductor) and no FX wrapper: leave "
            "torch._inductor.config.cpp_wrapper and fx_wrapper at False"
        )


class OpOverrides(DeviceOpOverrides):
    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(device):\n    return torch.spyre.current_stream(device).stream_id"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"


class Interface(DeviceInterface):
    device = device_module.device
    Event = torch.Event
    Stream = streams.Stream

    class Worker:
        """What compile workers ask: answered without the runtime."""

        set_device = staticmethod(device_module.set_device)
        current_device = staticmethod(device_module.current_device)
        get_device_properties = staticmethod(device_module.get_device_properties)

    current_device = staticmethod(device_module.current_device)
    set_device = staticmethod(device_module.set_device)
    device_count = staticmethod(device_module.device_count)
    is_available = staticmethod(device_module.is_available)
    current_stream = staticmethod(streams.current_stream)
    set_stream = staticmethod(streams.set_stream)
    stream = staticmethod(streams.stream)
    synchronize = staticmethod(device_module.synchronize)
    exchange_device = staticmethod(device_module._exchange_device)
    maybe_exchange_device = staticmethod(device_module._maybe_exchange_device)
    memory_allocated = staticmethod(device_module.memory_allocated)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return streams.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return ".".join(map(str, device_module.get_device_capability(device)))

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return device_module.is_bf16_supported(including_emulation)


_done = False


def register() -> None:
    """Registers all of this with Inductor. Idempotent."""
    global _done
    if _done:
        return
    _done = True
    register_interface_for_device(DEVICE_NAME, Interface)
    for index in range(device_module.device_count()):
        register_interface_for_device(f"{DEVICE_NAME}:{index}", Interface)
    register_device_op_overrides(DEVICE_NAME, OpOverrides())
    register_backend_for_device(
        DEVICE_NAME,
        Scheduling,
        Wrapper,
        CppWrapper,
        CppWrapper,
        device_custom_pass=SpyrePass(),
        device_custom_config=options,
    )
