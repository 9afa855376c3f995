"""The compilers that AOTAutograd calls: each runs the passes on one graph and returns a boxed callable."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.settings import bridge_config

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.fx import GraphModule

from . import config, graph_text, inductor, overwritten_inputs, passes, summary
from .context import OptimizerContext, graph_outputs, output_node
from .log import logger

Boxed = Callable[[list[Any]], Sequence[Any]]

_numbers = itertools.count()


class GraphCompiler:
    """Compiles the forward, backward or inference graph that AOTAutograd creates from one Dynamo graph.

    Args:
        settings: the options, which also apply to a backward graph that is compiled later.
        executable: kind of the recipes: ``fused``, ``interpreted`` or ``calls`` (no recipes).
        fake_mode: fake mode of the graph's inputs.
        dynamo_graph: the graph of Dynamo.
    """

    def __init__(
        self, settings: dict[str, Any], executable: str, fake_mode: Any, dynamo_graph: GraphModule
    ) -> None:
        self._settings = settings
        self._fused = executable == "fused"
        self._use_recipes = executable != "calls"
        self._fake_mode = fake_mode
        self._dynamo_graph = dynamo_graph
        self._number = next(_numbers)
        # The outputs are counted now, because freezing may later remove the contents of Dynamo's graph.
        self._num_outputs = len(torch.utils._pytree.tree_leaves(output_node(dynamo_graph).args))

    def partition(self, joint: GraphModule, inputs: Sequence[Any], **arguments: Any) -> Any:
        """Partition a joint graph into a forward and a backward graph."""
        if not self._fused:
            parts = min_cut_rematerialization_partition(joint, inputs, **arguments)
        else:
            with inductor.virtual_fake_mode(self._fake_mode):
                folding = bool(self._settings["joint_graph_constant_folding"])
                parts = inductor.partition(joint, inputs, folding, **arguments)
        overwritten_inputs.save_copies_of_written(*parts, arguments["num_fwd_outputs"])
        return parts

    def forward(self, graph: GraphModule, inputs: Sequence[Any]) -> Boxed:
        """Compile a forward graph. Values saved for the backward graph may get other strides than traced."""
        first = 0
        context = TracingContext.try_get()
        if context is not None and context.fw_metadata is not None:
            first = context.fw_metadata.num_mutated_inp_runtime_indices
        return self._compile("forward", graph, inputs, range(first, first + self._num_outputs))

    def backward(self, graph: GraphModule, inputs: Sequence[Any]) -> Boxed:
        """Compile a backward graph."""
        return self._compile("backward", graph, inputs, None)

    def inference(self, graph: GraphModule, inputs: Sequence[Any]) -> Boxed:
        """Compile a graph without gradients. ``use_graph_freezing`` makes its parameters constants."""
        if self._fused:
            with inductor.virtual_fake_mode(self._fake_mode):
                graph = inductor.joint_passes(graph, bool(self._settings["joint_graph_constant_folding"]))
        if not self._settings["use_graph_freezing"] or torch.is_grad_enabled():
            return self._compile("inference", graph, inputs, None)
        discard = bool(self._settings["discard_frozen_params"])
        graph, input_positions = inductor.freeze(self._dynamo_graph, graph, inputs, discard)
        constants = len({node.target for node in graph.graph.nodes if node.op == "get_attr"})
        _check_constant_count(constants)
        if not constants and _has_parameter_inputs(self._dynamo_graph):
            logger.warning(
                "use_graph_freezing created no constants, because Dynamo passes parameters as inputs. Set "
                "torch._inductor.config.freezing = True before the first call."
            )
        run = self._compile("inference", graph, [inputs[i] for i in input_positions], None, frozen=True)
        return _select_input_positions(run, input_positions)

    def _compile(
        self,
        kind: str,
        graph: GraphModule,
        inputs: Sequence[Any],
        fixed_stride_outputs: Sequence[int] | None,
        frozen: bool = False,
    ) -> Boxed:
        """Compile a graph.

        Args:
            kind: ``forward``, ``backward`` or ``inference``.
            graph: the traced graph.
            inputs: its fake inputs.
            fixed_stride_outputs: positions of outputs whose strides must be as traced; None for all.
            frozen: whether parameters are constants of the graph.
        """
        start = time.perf_counter()
        if self._fused:
            returned = () if kind == "backward" else _non_input_output_positions()
            with inductor.virtual_fake_mode(self._fake_mode), self._fake_mode:
                overwritten_inputs.retain_overwritten_values(graph, returned)
        outputs = graph_outputs(graph)
        name = f"graph_{self._number}_{kind}"
        graph_text.dump_unpartitioned_graph(graph, name)
        context = OptimizerContext(
            graph_module=graph,
            graph_name=name,
            example_inputs=list(inputs),
            fake_mode=self._fake_mode,
            is_training=kind != "inference",
            is_backward=kind == "backward",
            is_dynamic=any(isinstance(i, torch.SymInt) for i in inputs) or _has_symbols(graph),
            fused=self._fused,
            use_recipes=self._use_recipes,
            frozen=frozen,
            fixed_stride_outputs=frozenset(
                range(len(outputs)) if fixed_stride_outputs is None else fixed_stride_outputs
            ),
        )
        with (
            config.patch(self._settings),  # type: ignore[attr-defined]
            inductor.virtual_fake_mode(self._fake_mode),
        ):
            passes.optimize_graph(context)
        _report_output_strides(context)
        seconds = time.perf_counter() - start
        logger.debug("%s compiled in %.3f s", context.graph_name, seconds)
        summary.write_if_requested(context, seconds)
        executable: Boxed = context.executable
        return executable


def _non_input_output_positions() -> set[int]:
    """Return the positions of the outputs of the traced graph that are neither inputs nor views of inputs."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return set()
    views = (OutputType.alias_of_input, OutputType.is_input)
    first = metadata.num_mutated_inp_runtime_indices
    return {
        first + position
        for position, info in enumerate(metadata.output_info)
        if info.output_type not in views
    }


def _has_parameter_inputs(dynamo_graph: GraphModule) -> bool:
    values = (node.meta.get("example_value") for node in dynamo_graph.graph.nodes if node.op == "placeholder")
    return any(isinstance(value, torch.nn.Parameter) for value in values)


def _check_constant_count(constant_count: int) -> None:
    required_count = bridge_config.value_of("PT_HPU_CHECK_NUM_CONSTS")
    if required_count and constant_count != required_count:
        raise RuntimeError(
            f"PT_HPU_CHECK_NUM_CONSTS is {required_count}, but the frozen graph has {constant_count} "
            f"constants. Set it to {constant_count}."
        )


def _has_symbols(graph: GraphModule) -> bool:
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return True
        if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
            return True
    return False


def _report_output_strides(context: OptimizerContext) -> None:
    """Report the actual strides of the outputs to AOTAutograd."""
    tracing_context = TracingContext.try_get()
    reported = None if tracing_context is None else tracing_context.output_strides
    if reported is not None and context.output_strides is not None and not reported:
        reported.extend(context.output_strides)


def _select_input_positions(
    run: Callable[..., Sequence[Any]], positions: Sequence[int]
) -> Callable[..., Sequence[Any]]:
    """Return a function that passes `run` only the inputs at these positions.

    The returned function takes its inputs as `run` does: in one list, or as separate arguments.
    """
    if not getattr(run, "_boxed_call", False):
        return lambda *inputs: run(*(inputs[i] for i in positions))

    def with_inputs(inputs: list[Any]) -> Sequence[Any]:
        used = [inputs[i] for i in positions]
        inputs.clear()
        return run(used)

    with_inputs._boxed_call = True  # type: ignore[attr-defined]
    return with_inputs
