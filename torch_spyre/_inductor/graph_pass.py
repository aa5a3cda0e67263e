"""The pass that puts a post-grad graph on the device: its importable nodes become few launches.

A node is *inside* (computed by a launch), a *view* (folded into its readers, as are numbers; kept as a plain ATen call
where somebody outside looks at it) or *outside* (a plain ATen call, an input, a size). Regions are the insides of one
level: everything outside that a region needs comes before it, everything that needs the region comes behind it, so they
are convex.
"""

import itertools
import logging
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.virtualized import V
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg

from torch_spyre import _C
from torch_spyre._inductor import programs
from torch_spyre._inductor.region import Refused, Region, overload_of, tensor_values
from torch_spyre.constants import DEVICE_NAME

log = logging.getLogger(__name__)
aten, prims = torch.ops.aten, torch.ops.prims

#: What Inductor has its own words for; anything else outside is called as ATen has it.
_INDUCTORS_OWN = {
    prims.device_put.default,
    aten._local_scalar_dense.default,
    aten.item.default,
    aten._assert_async.msg,
    aten._assert_scalar.default,
}
_END = 1 << 30  # the level of what comes last
_SIZES = {aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default, aten.sym_storage_offset.default}


class SpyrePass(CustomGraphModulePass):
    """Runs at the end of Inductor's post-grad passes, forward and backward, when the device is in the graph."""

    def __call__(self, gm: GraphModule) -> None:
        Partition(gm).rewrite()

    def uuid(self) -> Any:
        """Hash of all that decides what the pass makes: constant in a process, never None."""
        return ("torch_spyre", _C._compiler_hash())


def _on_device(node: Node) -> bool:
    return any(t.device.type == DEVICE_NAME for t in tensor_values(node))


def _touches_device(node: Node) -> bool:
    return _on_device(node) or any(_on_device(n) for n in node.all_input_nodes)


def _is_alias(node: Node) -> bool:
    """A view by its schema; a reshape only when torch made one."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.args or not isinstance(node.args[0], Node):
        return False
    returns = node.target._schema.returns
    if node.target is not aten._unsafe_view.default:
        if not returns or returns[0].alias_info is None or returns[0].alias_info.is_write:
            return False
    made, base = tensor_values(node), tensor_values(node.args[0])
    return bool(made and base) and all(
        t.untyped_storage()._cdata == base[0].untyped_storage()._cdata for t in made
    )


def _may_alias(node: Node) -> bool:
    """True when a result may share memory with an argument, as far as the op tells."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target is aten._unsafe_view.default:
        return True
    return any(r.alias_info is not None for r in node.target._schema.returns)


def _importable(node: Node) -> bool:
    """All that can be said without asking the importer."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    made = tensor_values(node)
    if not made or node.target._schema.is_mutable or not _C._graph_importable(overload_of(node)):
        return False
    device = made[0].device
    if device.type != DEVICE_NAME or any(t.device != device for t in made):
        return False
    given = [t.device for n in node.all_input_nodes for t in tensor_values(n)]
    return all(d.type == "cpu" or d == device for d in given)


def _is_number(node: Node) -> bool:
    """A number on the CPU, made of a constant or cast to float32: folds into readers on the device as a view does."""
    made = tensor_values(node)
    if len(made) != 1 or made[0].device.type != "cpu" or made[0].dim() != 0:
        return False
    if node.target in (aten.full.default, aten.scalar_tensor.default):
        return True
    # Floats of modules become float64 tensors when sizes are dynamic.
    return node.target is prims.convert_element_type.default and made[0].dtype == torch.float32


def _same(strides: Sequence[int | torch.SymInt], others: Sequence[int | torch.SymInt]) -> bool:
    return len(strides) == len(others) and all(statically_known_true(a == b) for a, b in zip(strides, others))


def _dense_orders(sizes: Sequence[int | torch.SymInt]) -> Iterator[list[int | torch.SymInt]]:
    """Strides without gaps, for every order of up to five dimensions."""
    for order in itertools.permutations(range(len(sizes))) if len(sizes) <= 5 else ():
        strides: list[int | torch.SymInt] = [1] * len(sizes)
        for outer, inner in zip(reversed(order[:-1]), reversed(order)):
            strides[outer] = strides[inner] * sizes[inner]
        yield strides


class Partition:
    """What is inside and outside of one graph, and the rewriting."""

    def __init__(self, gm: GraphModule):
        self.gm, self.graph = gm, gm.graph
        self.nodes = list(self.graph.nodes)
        self.refused: dict[Node, str] = {}
        self.views = {n for n in self.nodes if (_importable(n) and _is_alias(n)) or _is_number(n)}
        self.inside = {n for n in self.nodes if _importable(n) and n not in self.views}
        self._keep_promised_strides()
        self.copies = [n for n in self.nodes if self._is_final_copy(n)]
        self.level: dict[Node, int] = {}
        self.enter: dict[Node, int] = {}  # the first region that may read the node
        self.leave: dict[Node, int] = {}  # the first outside level that may read it; outside 0 comes after region 0

    def _keep_promised_strides(self) -> None:
        """Gives what callers get the strides that they were promised. Inductor's own rewriting may have changed these since
        (an addition to a product becomes addmm), and would copy then, which takes a kernel of its own.
        Source: torch/_inductor/compile_fx.py, record_original_output_strides."""
        output = self.nodes[-1]
        for node, strides in zip(output.args[0], output.meta.get("original_output_strides", [])):
            if strides is None or not isinstance(node, Node) or not _on_device(node):
                continue
            views = []  # from the output to what it is a view of
            while node in self.views:
                views.append(node)
                node = node.args[0]
            if node.op == "placeholder" or _same(tensor_values(views[0] if views else node)[0].stride(), strides):
                continue
            value = node.meta["val"]
            orders = [strides] if not views else _dense_orders(value.shape)
            for order in orders:
                with value.fake_mode:
                    seen = [torch.empty_strided(value.shape, order, dtype=value.dtype, device=value.device)]
                    for view in reversed(views):
                        rest, named = map_arg((view.args[1:], view.kwargs), lambda n: n.meta["val"])
                        seen.append(view.target(seen[-1], *rest, **named))
                if _same(seen[-1].stride(), strides):
                    for changed, fake in zip([node, *reversed(views)], seen):
                        changed.meta["val"] = fake
                    break

    # ------------------------------------------------------------------------------------------------ what goes where

    @staticmethod
    def _is_final_copy(node: Node) -> bool:
        """A mutated input's epilogue: copy_(placeholder, value), read by nobody but the output."""
        if node.target is not aten.copy_.default or not isinstance(node.args[1], Node):
            return False
        to = node.args[0]
        return to.op == "placeholder" and _on_device(to) and all(u.op == "output" for u in node.users)

    def _is_view(self, node: Node) -> bool:
        return node in self.views

    def _transparent(self, node: Node) -> bool:
        """Views, and single results of what gives several."""
        return node in self.views or node.target is operator.getitem

    def _bounds(self, symbol: sympy.Symbol) -> tuple[int, int]:
        ranges = self._shape_env().var_to_range.get(symbol)
        most = (1 << 63) - 1
        if ranges is None:
            return 0, most
        low = int(ranges.lower) if ranges.lower.is_Integer else 0
        high = int(ranges.upper) if ranges.upper.is_Integer else most
        return max(low, 0), min(high, most)

    def _shape_env(self) -> Any:
        for node in self.nodes:
            for value in [node.meta.get("val"), *tensor_values(node)]:
                for size in [value] if isinstance(value, torch.SymInt) else getattr(value, "shape", ()):
                    if isinstance(size, torch.SymInt):
                        return size.node.shape_env
        raise RuntimeError("a symbol without a shape environment")

    def _refuse(self, node: Node, reason: str) -> None:
        self.refused[node] = reason
        self.inside.discard(node)
        self.views.discard(node)

    def _scout(self) -> Region:
        """Imports everything as one region, to see what is refused."""
        region = Region(lambda n: n in self.inside, self._is_view, self._bounds)
        for node in self.nodes:
            if node in self.inside:
                try:
                    region.call(node)
                except Refused as refused:
                    self._refuse(node, str(refused))
        for node, reason in region.unfolded.items():
            self._refuse(node, reason)
        return region

    def _find_levels(self) -> None:
        self.level.clear()
        last_effect = -1  # nodes with effects, as random numbers, keep their order
        for node in self.nodes:
            before = node.all_input_nodes
            enter = max((self.enter[n] for n in before), default=0)
            leave = max((self.leave[n] for n in before), default=-1)
            if node in self.inside:
                self.level[node] = enter
                leave = enter
            elif node.op in ("placeholder", "get_attr"):
                enter, leave = 0, -1
            elif node.target is aten.copy_.default:
                leave = _END
            elif not self._transparent(node):
                if node.is_impure() or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                    leave = last_effect = max(leave, last_effect)
                enter = leave + 1
            self.enter[node], self.leave[node] = enter, leave
        for _ in self.copies:  # one may read what another writes
            for copy in self.copies:
                self.level[copy] = max([self.enter[copy.args[1]], *self._reads_until(copy.args[0], copy)])

    def _reads_until(self, node: Node, but: Node) -> Iterable[int]:
        """The regions from which on nobody reads `node` any more."""
        for user in node.users:
            if user is but or user.op == "output":
                continue
            if self._transparent(user):
                yield from self._reads_until(user, but)
            elif user in self.inside or user in self.copies:
                yield self.level.get(user, 0)
            else:
                yield self.leave[user] + 1
                if _may_alias(user):  # a view that the importer refuses still shows this memory
                    yield from self._reads_until(user, but)

    def _replace_sizes(self) -> None:
        """Sizes of what is inside are sizes of inputs: nobody should wait for a tensor to ask for its size."""
        given = {n.meta["val"].node.expr: n for n in self.nodes
                 if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.SymInt)}  # fmt: skip
        for node in self.nodes:
            value = node.meta.get("val")
            if node.target in _SIZES and isinstance(value, torch.SymInt) and value.node.expr in given:
                node.replace_all_uses_with(given[value.node.expr])

    def _replace_seeds(self) -> None:
        """Inductor draws seeds of 64 bits; the device holds 32."""
        for i, node in enumerate(self.nodes):
            if node.target is prims.inductor_seeds.default and _on_device(node):
                with self.graph.inserting_before(node):
                    count, device = node.args
                    drawn = self.graph.call_function(
                        aten.randint.low, (0, (1 << 31) - 1, [count]), {"dtype": torch.int64, "device": device}
                    )
                drawn.meta = dict(node.meta)
                node.replace_all_uses_with(drawn)
                self.graph.erase_node(node)
                self.nodes[i] = drawn

    # ------------------------------------------------------------------------------------------------------ regions

    def _seen_outside(self, node: Node, key: tuple[int, int]) -> bool:
        """Whether anything but the region `key` looks at this tensor, or at a view of it."""
        for user in node.users:
            if user in self.views:
                if self._seen_outside(user, key):
                    return True
            elif user in self.inside or user in self.copies:
                if self._key(user) != key:
                    return True
            else:
                return True
        return False

    def _key(self, node: Node) -> tuple[int, int]:
        """Level and device of the region that a node belongs to."""
        tensor = tensor_values(node.args[0] if node in self.copies else node)[0]
        return self.level[node], tensor.device.index

    def _import(self, key: tuple[int, int], region: Region | None) -> Region:
        """One region, complete. Raises Refused."""
        members = [n for n in self.nodes if n in self.inside and self._key(n) == key]
        if region is None:
            member = set(members)
            region = Region(member.__contains__, self._is_view, self._bounds)
            for node in members:
                region.call(node)
        for copy in self.copies:
            if self._key(copy) == key:
                region.mutate(*copy.args[:2])
        for node in members:
            if isinstance(node.meta["val"], torch.Tensor):
                results = [node]
            else:
                results = [u for u in node.users if u.target is operator.getitem]
                if len(results) != len(node.users):
                    raise Refused(node, "its results are used as a list")
            for result in results:
                if isinstance(result.meta["val"], torch.Tensor) and self._seen_outside(result, key):
                    region.output(result)
        for node, reason in region.unfolded.items():
            if node in self.views:
                raise Refused(node, reason)
        return region

    def _regions(self) -> dict[tuple[int, int], Region]:
        self._replace_sizes()
        self._replace_seeds()
        scout: Region | None = self._scout()
        if self.refused:
            scout = None  # it has inputs that only refused nodes read
        while True:
            self._find_levels()
            keys = sorted({self._key(n) for n in self.level})
            try:
                return {key: self._import(key, scout if len(keys) == 1 else None) for key in keys}
            except Refused as refused:
                log.debug("refused: %s: %s", refused.node, refused)
                if refused.node in self.copies or refused.node not in self.inside | self.views:
                    self._drop_copies_of(refused.node, str(refused))
                else:
                    self._refuse(refused.node, str(refused))
                scout = None

    def _drop_copies_of(self, value: Node, reason: str) -> None:
        dropped = [c for c in self.copies if value in (c, c.args[1])]
        if not dropped:
            raise RuntimeError(f"torch_spyre: the compiler can't place {value.format_node()}: {reason}")
        for copy in dropped:
            self.refused[copy] = reason
            self.copies.remove(copy)

    # ---------------------------------------------------------------------------------------------------- rewriting

    def rewrite(self) -> None:
        regions = self._regions()
        place = {n: 2 * self.leave.get(n, -1) + 2 for n in self.nodes}
        end = self.nodes[-1]
        results: dict[Node, Node] = {}
        for (level, device), region in regions.items():
            if region.outputs or region.mutated:  # nobody looks at the others: all that is left are views of inputs
                results |= self._launch(region, level, device, end, place)
        for node, result in results.items():  # now that every launch reads what it reads
            node.replace_all_uses_with(result)
        for node in reversed(self.nodes):
            if node in self.copies:
                node.replace_all_uses_with(node.args[0])
                self.graph.erase_node(node)
            elif not node.users and (node in self.inside or self._transparent(node) or node.op == "get_attr"):
                self.graph.erase_node(node)
        # Outside of level L comes behind the regions of level L and before those of level L + 1.
        for node in sorted((n for n in self.graph.nodes if n is not end), key=lambda n: place[n]):
            end.prepend(node)
        outside = self._mark_outside()
        self._report(regions, outside)
        self.graph.lint()
        self.gm.recompile()

    def _launch(
        self, region: Region, level: int, device: int, end: Node, place: dict[Node, int]
    ) -> dict[Node, Node]:
        """Adds the region's launch; returns what stands for each tensor that it makes."""
        results = {}
        program = region.finish()
        ops = torch.ops.spyre
        with self.graph.inserting_before(end):
            symbols = [self._symbol_node(s, place) for s in region.symbols]
            tensors = region.tensors()
            if region.mutated:
                arguments: tuple[Any, ...] = (tensors, region.mutated, symbols, device, program.key)
                launch = self.graph.call_function(ops.launch_mut.default, arguments)
            else:
                launch = self.graph.call_function(ops.launch.default, (tensors, symbols, device, program.key))
            launch.meta["val"] = [n.meta["val"] for n in region.outputs]
            place[launch] = 2 * level + 1
            for i, node in enumerate(region.outputs):
                result = self.graph.call_function(operator.getitem, (launch, i))
                result.meta = {k: v for k, v in node.meta.items() if k in ("val", "tensor_meta", "stack_trace")}
                place[result] = 2 * level + 1
                results[node] = result
        if inductor_config.trace.enabled:
            programs.dump(program.key, V.debug.filename(f"spyre_{program.key[:8]}"))
        return results

    def _symbol_node(self, symbol: sympy.Symbol, place: dict[Node, int]) -> Node:
        """A node that gives the symbol's value: an input, or a size of a tensor from outside."""
        for node in self.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr == symbol and node not in self.inside:
                return node
        for node in self.nodes:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor) or node in self.inside or self._transparent(node):
                continue
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr == symbol:
                    made = self.graph.call_function(aten.sym_size.int, (node, dim))
                    made.meta["val"] = size
                    place[made] = place[node]
                    return made
        raise RuntimeError(f"torch_spyre: no tensor of the graph has the size {symbol}")

    def _mark_outside(self) -> Counter[str]:
        """What is left of the device is called as ATen has it, not lowered by Inductor."""
        outside: Counter[str] = Counter()
        for node in self.graph.nodes:
            if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
                continue
            if node.target.namespace == DEVICE_NAME or node.target in _INDUCTORS_OWN or not _touches_device(node):
                continue
            if node.target in _SIZES:
                continue
            node.meta["should_fallback"] = True
            if not _is_alias(node):
                outside[node.target.name()] += 1
        return outside

    def _report(self, regions: dict[tuple[int, int], Region], outside: Counter[str]) -> None:
        count = counters["torch_spyre"]
        count["graphs"] += 1
        count["regions"] += len(regions)
        count["nodes_inside"] += len(self.inside)
        for name, number in outside.items():
            count[f"outside {name}"] += number
        log.info("%d nodes in %d launches, %d outside", len(self.inside), len(regions), sum(outside.values()))
        for node in self.graph.nodes:
            if node.meta.get("should_fallback") and not _is_alias(node):
                log.info("outside: %s: %s", node.format_node(), self.refused.get(node, "the importer has no entry for it"))
        for (level, device), region in regions.items():
            log.debug("region %d on %s:%d: %d inputs, %d mutated, %d outputs, symbols %s", level, DEVICE_NAME, device,
                      len(region.tensors()), len(region.mutated), len(region.outputs), region.symbols)  # fmt: skip
