"""Fused recipes: clusters compiled by Inductor to C++ for the CPU, run on host aliases of device tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._python_dispatch import _disable_current_modes

from . import inductor, static_program_builder
from .aliases import module_writes_to_inputs
from .cpu_calls import call_on_host
from .operator_by_operator import count_cluster_run

Code = Callable[[list[Any]], Sequence[Any]]

_CPU = torch.device("cpu")


class FusedCompiler:
    """Compiler of one cluster. Each compilation is for one set of fake or real inputs.

    Args:
        module: the cluster, on hpu; it is not changed.
        name: name of the recipe.
        fixed_stride_outputs: positions of the outputs whose strides must be as traced.
        is_inference, is_backward, frozen: as for `inductor.compile_cpu`.
        decompose: apply Inductor's table of decompositions. False if it was already applied.
    """

    def __init__(
        self,
        module: GraphModule,
        name: str,
        fixed_stride_outputs: Sequence[int],
        is_inference: bool,
        is_backward: bool,
        frozen: bool,
        decompose: bool,
    ) -> None:
        self._decompose = decompose
        self._module = module
        self.name = name
        self._fixed_stride_outputs = fixed_stride_outputs
        self._writes = module_writes_to_inputs(module)
        self._kind = {"is_inference": is_inference, "is_backward": is_backward, "frozen": frozen}
        *_, output = module.graph.nodes
        self._outputs = [node.meta.get("val") for node in output.args[0]]

    def compile(self, values: Sequence[Any], fake_mode: Any) -> tuple[FusedRecipe, list[Any] | None]:
        """Compile the recipe for fake inputs.

        Args:
            values: fake device tensors, symbolic sizes and numbers.
            fake_mode: fake mode of `values`.

        Returns:
            The recipe, and the strides of its outputs (None if they are as traced).
        """
        module = _cpu_copy_of_cluster(self._module)
        inputs = [_fake_cpu_tensor_like(value, fake_mode) for value in values]
        module = self._prepare(module, inputs, fake_mode)
        code, strides = inductor.compile_cpu(module, inputs, self._fixed_stride_outputs, **self._kind)
        return FusedRecipe(self.name, code, values, self._outputs, self._writes), strides

    def compile_static(self, arguments: Sequence[Any]) -> FusedRecipe:
        """Compile the recipe for the sizes and numbers of real arguments."""
        fake_mode = FakeTensorMode()
        module = _cpu_copy_of_cluster(self._module)
        inputs = [_fake_cpu_tensor_like(value, fake_mode) for value in arguments]
        _propagate_fake_tensors(module, inputs, fake_mode)
        _replace_numbers_by_constants(module, inputs)
        module = self._prepare(module, inputs, fake_mode)
        code, _ = inductor.compile_cpu(module, inputs, range(len(self._outputs)), **self._kind)
        return FusedRecipe(self.name, code, arguments, self._outputs, self._writes)

    def _prepare(self, module: GraphModule, inputs: Sequence[Any], fake_mode: Any) -> GraphModule:
        if self._decompose:
            # AOTAutograd did not apply Inductor's table of decompositions. Apply it now, because Inductor
            # cannot generate code for every operator.
            with inductor.virtual_fake_mode(fake_mode), torch.no_grad():
                trace = make_fx(module, inductor.inductor_decompositions(), _allow_non_fake_inputs=True)
                module = trace(*inputs)
        _propagate_fake_tensors(module, inputs, fake_mode)
        return module


class FusedRecipe:
    """A compiled cluster: boxed callable of device tensors, numbers, and CPU tensors without dimensions.

    Args:
        name: name of the recipe.
        code: boxed function that takes and returns the values on the CPU.
        inputs: fake or real inputs, which show the positions of device tensors.
        outputs: fake outputs, which show the positions of device tensors among the results.
        writes: the cluster writes to its inputs.
    """

    def __init__(
        self, name: str, code: Code, inputs: Sequence[Any], outputs: Sequence[Any], writes: bool
    ) -> None:
        self.name = name
        self._writes = writes
        self._code = code
        self._device_inputs = [i for i, value in enumerate(inputs) if _is_device_tensor(value)]
        self._device_outputs = [i for i, value in enumerate(outputs) if _is_device_tensor(value)]
        self._other_outputs = [i for i, value in enumerate(outputs) if not _is_device_tensor(value)]
        on_cpu = any(_is_cpu_tensor(value) for value in (*inputs, *outputs))
        self._plain = not on_cpu
        with _disable_current_modes():  # a fake mode would reject constants, which are real tensors
            self._program = (
                static_program_builder.build_static_program(code, inputs, writes) if self._plain else None
            )

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Run the recipe on a list of inputs and empty the list."""
        count_cluster_run("fused")
        if self._program is not None:
            # The program returns None if the inputs differ from the traced inputs, or while a dispatch mode
            # observes operators.
            results: list[Any] | None = self._program(inputs)
            if results is not None:
                return results
        if self._plain:
            results = call_on_host(self._code, inputs, self._writes)
            inputs.clear()
            return results
        return self._call_mixed(inputs)

    def _call_mixed(self, inputs: list[Any]) -> list[Any]:
        host_results: list[Any] = []

        def call(views: list[torch.Tensor]) -> list[torch.Tensor]:
            values = list(inputs)
            for position, view in zip(self._device_inputs, views, strict=True):
                values[position] = view
            results = self._code(values)
            host_results.extend(results[i] for i in self._other_outputs)
            return [results[i] for i in self._device_outputs]

        tensors = call_on_host(call, [inputs[i] for i in self._device_inputs], self._writes)
        results: list[Any] = [None] * (len(self._device_outputs) + len(self._other_outputs))
        for position, value in zip(self._device_outputs, tensors, strict=True):
            results[position] = value
        for position, value in zip(
            self._other_outputs, _copy_new_cpu_tensors(host_results, inputs), strict=True
        ):
            results[position] = value
        inputs.clear()
        return results


class StaticRecipes:
    """Boxed callable that compiles one recipe for each combination of input sizes and input numbers."""

    def __init__(self, compiler: FusedCompiler) -> None:
        self._compiler = compiler
        self._recipes: dict[Any, FusedRecipe] = {}

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Run the recipe for a list of inputs and empty the list."""
        key = tuple(
            (v.shape, v.stride(), v.storage_offset(), v.dtype, v.device) if isinstance(v, torch.Tensor) else v
            for v in inputs
        )
        recipe = self._recipes.get(key)
        if recipe is None:
            recipe = self._recipes[key] = self._compiler.compile_static(inputs)
        return recipe(inputs)


def _is_device_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE


def _is_cpu_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _copy_new_cpu_tensors(values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the results with a copy of each CPU tensor that the call created.

    The device owns memory that is allocated during the call, so a CPU tensor must not keep this memory.
    Copies share memory if the original tensors share memory.
    """
    storages = {v.untyped_storage().data_ptr(): v.untyped_storage() for v in inputs if _is_cpu_tensor(v)}
    results = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in storages:
            storages[value.untyped_storage().data_ptr()] = value.untyped_storage().clone()
        if isinstance(value, torch.Tensor) and all(value is not input_value for input_value in inputs):
            storage = storages[value.untyped_storage().data_ptr()]
            geometry = value.storage_offset(), value.size(), value.stride()
            value = torch.empty(0, dtype=value.dtype).set_(storage, *geometry)
        results.append(value)
    return results


def _replace_alpha_by_multiplication(module: GraphModule) -> None:
    """Replace the factor ``alpha`` of ``add`` and ``sub`` by a separate multiplication.

    Inductor of torch 2.13 fuses ``add(x, a @ b, alpha=k)`` into a matrix product and ignores k
    (docs/torch-bugs.md#alpha).
    """
    aten = torch.ops.aten
    for node in list(module.graph.nodes):
        if node.target not in (aten.add.Tensor, aten.sub.Tensor) or node.kwargs.get("alpha", 1) == 1:
            continue
        if not isinstance(node.args[1], Node):
            continue
        with module.graph.inserting_before(node):
            scaled = module.graph.call_function(aten.mul.Tensor, (node.args[1], node.kwargs["alpha"]))
        node.args = (node.args[0], scaled)
        node.kwargs = {key: value for key, value in node.kwargs.items() if key != "alpha"}
    module.recompile()


def _cpu_copy_of_cluster(module: GraphModule) -> GraphModule:
    """Return a copy of the cluster with constants and device arguments on the CPU."""
    result = GraphModule(module, copy.deepcopy(module.graph), class_name=module.__class__.__name__)
    for node in result.graph.nodes:
        # The annotation "custom" contains the stream of the node's block; the CPU has no streams.
        node.meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta", "custom")}
        if node.op == "get_attr":
            constant = getattr(module, node.target)
            if _is_device_tensor(constant):
                # The compiler runs under a fake mode, which would reject the real constant.
                with _disable_current_modes():
                    delattr(
                        result, node.target
                    )  # a frozen parameter cannot be replaced by a tensor, so delete it first
                    result.register_buffer(node.target, constant.detach().cpu())
        node.args = map_aggregate(node.args, _cpu_for_hpu_device)
        node.kwargs = map_aggregate(node.kwargs, _cpu_for_hpu_device)
    _replace_alpha_by_multiplication(result)
    return result


def _cpu_for_hpu_device(leaf: Any) -> Any:
    if isinstance(leaf, torch.device) and leaf.type == DEVICE_TYPE:
        return _CPU
    return "cpu" if isinstance(leaf, str) and leaf.split(":")[0] == DEVICE_TYPE else leaf


def _fake_cpu_tensor_like(value: Any, fake_mode: Any) -> Any:
    """Return a fake CPU tensor with the metadata of a tensor. Return a number unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    sizes, strides, offset = value.size(), value.stride(), value.storage_offset()
    with fake_mode:
        if isinstance(offset, int) and offset == 0:
            return torch.empty_strided(sizes, strides, dtype=value.dtype, device="cpu")
        spanned = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        return torch.empty(spanned, dtype=value.dtype, device="cpu").as_strided(sizes, strides, offset)


def _propagate_fake_tensors(module: GraphModule, inputs: Sequence[Any], fake_mode: Any) -> None:
    before = fake_mode.allow_non_fake_inputs
    fake_mode.allow_non_fake_inputs = True
    try:
        with torch.no_grad():
            FakeTensorProp(module, mode=fake_mode).propagate_dont_convert_inputs(*inputs)
    finally:
        fake_mode.allow_non_fake_inputs = before


def _replace_numbers_by_constants(module: GraphModule, inputs: Sequence[Any]) -> None:
    """Replace inputs and nodes that are numbers by their values."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    numbers: dict[Node, Any] = {
        node: value
        for node, value in zip(placeholders, inputs, strict=True)
        if isinstance(value, int | float)
    }
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), int | float):
            numbers[node] = node.meta["val"]

    def number(leaf: Any) -> Any:
        return numbers.get(leaf, leaf) if isinstance(leaf, Node) else leaf

    for node in module.graph.nodes:
        node.args = map_aggregate(node.args, number)
        node.kwargs = map_aggregate(node.kwargs, number)
    module.graph.eliminate_dead_code()
    module.recompile()
