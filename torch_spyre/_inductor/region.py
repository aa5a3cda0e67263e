"""One region of a post-grad graph on its way into a device graph."""

import base64
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Node

from torch_spyre import _C
from torch_spyre._inductor import programs
from torch_spyre._inductor.sizes import NoSize, size_text
from torch_spyre.constants import DEVICE_NAME

aten, prims = torch.ops.aten, torch.ops.prims
_IGNORED = (torch.device, torch.layout, torch.memory_format, torch.Generator)


class Refused(Exception):
    """The importer can't take this node; str() says why."""

    def __init__(self, node: Node, reason: str):
        super().__init__(reason)
        self.node = node


def overload_of(node: Node) -> str:
    """ "aten::add.Tensor", as the importer's table names it. Copies to the device are launch inputs, nothing more."""
    if node.target is prims.device_put.default:
        return "aten::alias"
    if node.target is aten.as_strided_scatter.default:
        return "spyre::strided_scatter"
    return node.target.name()


def tensor_values(node: Node) -> list[torch.Tensor]:
    """The fake tensors that a node gives."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def is_constant(node: Node) -> bool:
    """A tensor constant of the graph module, also through lift_fresh_copy."""
    if node.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.lift.default):
        return isinstance(node.args[0], Node) and is_constant(node.args[0])
    return node.op == "get_attr" and isinstance(_attribute(node), torch.Tensor)


def constant_value(node: Node) -> torch.Tensor:
    """Of a constant, on the CPU."""
    return constant_value(node.args[0]) if node.op != "get_attr" else _attribute(node).detach().cpu()


def _attribute(node: Node) -> Any:
    return functools.reduce(getattr, node.target.split("."), node.graph.owning_module)


def source_of(node: Node) -> str:
    """ "model.py:42": the innermost line of the user's code."""
    lines = [s for s in (node.meta.get("stack_trace") or "").splitlines() if s.lstrip().startswith("File ")]
    if not lines:
        return ""
    parts = lines[-1].split('"')
    number = parts[2].split("line ")[-1].split(",")[0] if len(parts) > 2 else "0"
    return f"{parts[1]}:{number}"


def _dense_strides(tensor: torch.Tensor) -> list[int | torch.SymInt]:
    """Strides without gaps and overlaps, in the order of the tensor's own. What is made of an input with gaps keeps them
    by torch's rules for fake tensors, while memory that is made anew has none."""
    sizes, strides = tensor.shape, tensor.stride()

    def hint(number: int | torch.SymInt) -> int:
        return number.node.hint or 0 if isinstance(number, torch.SymInt) else number

    out: list[int | torch.SymInt] = [0] * len(sizes)
    step: int | torch.SymInt = 1
    gaps = False
    for d in sorted(reversed(range(len(sizes))), key=lambda d: hint(strides[d])):
        out[d] = step
        gaps = gaps or (hint(sizes[d]) > 1 and hint(strides[d]) != hint(step))
        step = step * sizes[d]
    return out if gaps else list(strides)


class Region:
    """Nodes imported so far, and what they need from outside.

    Parameters
    ----------
    is_member : callable
        Whether a node is computed in this region; another node's tensor is an input of it.
    is_view : callable
        Whether a node is a view that folds into its readers, in whichever region they are.
    bounds : callable
        From a symbol to its least and largest value.
    """

    def __init__(
        self,
        is_member: Callable[[Node], bool],
        is_view: Callable[[Node], bool],
        bounds: Callable[[sympy.Symbol], tuple[int, int]],
    ):
        self._is_member, self._is_view, self._bounds = is_member, is_view, bounds
        self._builder = _C.GraphBuilder()
        self._values: dict[Node, Any] = {}
        self._sizes: dict[sympy.Expr, Any] = {}
        self.symbols: list[sympy.Symbol] = []
        self.inputs: list[Node] = []  # in the order of the graph's inputs; constants among them
        self.mutated: list[Node] = []
        self.outputs: list[Node] = []
        self.unfolded: dict[Node, str] = {}  # views that became inputs because the importer refused them

    def call(self, node: Node) -> None:
        """Imports a node. Raises Refused; then the region is as before, except for inputs that nobody reads."""
        schema = node.target._schema
        arguments = []
        for i, formal in enumerate(schema.arguments):
            if i < len(node.args):
                arguments.append(node.args[i])
            else:
                arguments.append(node.kwargs.get(formal.name, formal.default_value))
        if overload_of(node) == "aten::alias":
            arguments = arguments[:1]
        if node.target is aten.as_strided_scatter.default:
            base = node.args[0].meta["val"]
            if not base.is_contiguous() or arguments[4] is None or not isinstance(base.storage_offset(), int):
                raise Refused(node, "self is not contiguous")
            offset = arguments[4].meta["val"] if isinstance(arguments[4], Node) else arguments[4]
            arguments[4] = offset - base.storage_offset()
        value = node.meta["val"]
        expected = [self._shape(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
        flat_list = isinstance(schema.returns[0].type, torch.ListType) if schema.returns else False
        try:
            results = self._builder.call(
                overload_of(node),
                [self._argument(a) for a in arguments],
                overload_of(node).replace("::", "."),
                source_of(node),
                [] if flat_list else expected,
            )
        except (NotImplementedError, RuntimeError, TypeError) as error:
            raise Refused(node, str(error)) from None
        many = flat_list or len(schema.returns) > 1
        self._values[node] = (results[0] if flat_list else results) if many else results[0]

    def output(self, node: Node) -> None:
        """The launch returns this tensor. Raises Refused."""
        strides = _dense_strides(node.meta["val"])
        try:
            self._builder.output(self._tensor(node), [self._size(s) for s in strides])
        except (NotImplementedError, RuntimeError) as error:
            raise Refused(node, str(error)) from None
        self.outputs.append(node)

    def mutate(self, to: Node, value: Node) -> None:
        """`to`, a tensor from outside, gets the elements of `value` at the end of the launch. Raises Refused."""
        reference = self._input(to)
        if value.meta["val"].dtype != to.meta["val"].dtype or value.meta["val"].shape != to.meta["val"].shape:
            raise Refused(value, "copy_ of another dtype or shape")
        self._builder.mutate(reference, self._tensor(value))
        self.mutated.append(to)

    def finish(self) -> programs.Program:
        """The program of the launch. Raises Refused naming a node of the region."""
        try:
            text, _ = self._builder.finish()
        except (NotImplementedError, RuntimeError) as error:
            raise Refused(next(iter(self._values)), str(error)) from None
        tensors, sources, constants = 0, [], []
        for node in self.inputs:
            if is_constant(node):
                sources.append(["constant", len(constants)])
                constants.append(_constant(constant_value(node)))
            elif node in self.mutated:
                sources.append(["mutated", self.mutated.index(node)])
            else:
                sources.append(["input", tensors])
                tensors += 1
        return programs.Program.make(text, sources, constants)

    def tensors(self) -> list[Node]:
        """The launch's `inputs`: without constants and mutated tensors."""
        return [n for n in self.inputs if n not in self.mutated and not is_constant(n)]

    def _shape(self, value: Any) -> tuple[torch.dtype, list[Any]] | None:
        if not isinstance(value, torch.Tensor):
            return None
        try:
            return value.dtype, [self._size(s) for s in value.shape]
        except NoSize:
            return None

    def _size(self, value: int | torch.SymInt) -> Any:
        if not isinstance(value, torch.SymInt):
            return int(value)
        expr = value.node.expr
        if expr not in self._sizes:
            self._sizes[expr] = _C.GraphSize(size_text(expr, self._symbol))
        return self._sizes[expr]

    def _symbol(self, symbol: sympy.Symbol) -> str:
        if symbol not in self.symbols:
            self._builder.symbol(str(symbol), *self._bounds(symbol))
            self.symbols.append(symbol)
        return f"s{self.symbols.index(symbol)}"

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Node):
            given = value.meta.get("val")
            if isinstance(given, torch.Tensor) or is_constant(value):
                return self._tensor(value)
            if isinstance(given, (list, tuple)):
                return [self._argument(v) for v in self._results(value)]
            value = given
        if isinstance(value, torch.SymInt):
            return self._size(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise NotImplementedError(f"the number {value} is known only at launch")
        if isinstance(value, _IGNORED):
            return None
        if isinstance(value, (list, tuple)):
            return [self._argument(v) for v in value]
        return value

    def _results(self, node: Node) -> Sequence[Any]:
        if not self._is_member(node) or node not in self._values:
            if not self._is_view(node):
                raise NotImplementedError(f"the list {node.name} is made outside")
            self.call(node)
        return self._values[node]

    def _tensor(self, node: Node) -> Any:
        if node in self._values:
            return self._values[node]
        if node.target is operator.getitem and (self._is_member(node.args[0]) or self._is_view(node.args[0])):
            self._values[node] = self._results(node.args[0])[node.args[1]]
            return self._values[node]
        if self._is_view(node):
            try:
                self.call(node)
                return self._values[node]
            except Refused as refused:
                self.unfolded[node] = str(refused)
        return self._input(node)

    def _input(self, node: Node) -> Any:
        if node in self.inputs:
            return self._values[node]
        value = constant_value(node) if is_constant(node) else node.meta["val"]
        dtype = value.dtype
        if value.device.type not in ("cpu", DEVICE_NAME):
            raise NotImplementedError(f"the tensor {node.name} is on {value.device}")
        if dtype == torch.float64 and value.device.type == "cpu" and value.dim() == 0:
            dtype = torch.float32  # a number; the launch casts it
        sizes, strides = ([self._size(s) for s in numbers] for numbers in (value.shape, value.stride()))
        self._values[node] = self._builder.input(node.name, dtype, sizes, strides)
        self.inputs.append(node)
        return self._values[node]


def _constant(value: torch.Tensor) -> list[Any]:
    value = value.contiguous()
    data = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    return [str(value.dtype).removeprefix("torch."), list(value.shape), base64.b64encode(data).decode()]
