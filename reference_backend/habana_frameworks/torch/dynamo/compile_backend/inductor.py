"""All uses of Inductor, torch's compiler. This module hides the differences between releases of torch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from habana_frameworks.torch.internal.fusion import cache_config
from habana_frameworks.torch.internal.settings import compile_threads

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, detect_fake_mode
from torch._inductor import compile_fx, inductor_prims
from torch._inductor import config as inductor_config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch.fx import GraphModule

_CPU = torch.device("cpu")

SEEDS = inductor_prims.seeds
#: Inductor's random operators. Their results depend only on a seed tensor, which the operator `SEEDS` draws.
SEEDED = frozenset({inductor_prims.lookup_seed, inductor_prims.random, inductor_prims.randint})


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return Inductor's table of decompositions."""
    return select_decomp_table()


def virtual_fake_mode(fake_mode: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which Inductor's passes use the fake mode."""
    context: contextlib.AbstractContextManager[Any] = V.set_fake_mode(fake_mode)
    return context


def joint_passes(graph_module: GraphModule, constant_folding: bool) -> GraphModule:
    """Run Inductor's joint-graph passes on a graph before it is partitioned into forward and backward.

    The passes replace random operators by the operator `SEEDS`, which draws seeds, and by operators in
    `SEEDED`, which compute random numbers from the seeds.

    Args:
        graph_module: the joint graph, or an inference graph; it is changed.
        constant_folding: fold uniform constants.

    Returns:
        The resulting graph, which may be a different object.
    """
    run = compile_fx._recursive_joint_graph_passes
    with inductor_config.patch(_joint_settings(constant_folding)):
        return run(graph_module, **_input_device_argument(run)) or graph_module


def partition(
    joint: GraphModule, joint_inputs: Sequence[Any], constant_folding: bool, **arguments: Any
) -> tuple[GraphModule, GraphModule]:
    """Run `joint_passes`, then partition the graph into forward and backward as Inductor does."""
    joint = joint_passes(joint, constant_folding)
    return min_cut_rematerialization_partition(joint, joint_inputs, compiler="inductor", **arguments)


def view_to_reshape(graph_module: GraphModule) -> None:
    """Replace views by reshapes, because a view fails if a saved value has other strides than traced."""
    from torch._inductor.fx_passes.post_grad import view_to_reshape as change

    change(graph_module)


def freeze(
    dynamo_graph: GraphModule, graph_module: GraphModule, inputs: Sequence[Any], discard: bool
) -> tuple[GraphModule, list[int]]:
    """Convert the parameters of an inference graph to constants.

    Args:
        dynamo_graph: the graph of Dynamo, which has the parameters.
        graph_module: the inference graph.
        inputs: inputs of the inference graph.
        discard: free the parameters that were converted.

    Returns:
        The graph, and the positions of the inputs that remain.
    """
    from torch._inductor.freezing import freeze as freeze_graph

    with inductor_config.patch(freezing=True, freezing_discard_parameters=discard):
        return freeze_graph(dynamo_graph, graph_module, list(inputs))


def compile_cpu(
    graph_module: GraphModule,
    inputs: Sequence[Any],
    fixed_stride_outputs: Sequence[int],
    is_inference: bool,
    is_backward: bool,
    frozen: bool,
) -> tuple[Callable[[list[Any]], Sequence[Any]], list[Any] | None]:
    """Compile a graph on CPU tensors.

    Args:
        graph_module: functional graph on fake CPU tensors that returns a tuple.
        inputs: fake inputs of the graph.
        fixed_stride_outputs: positions of the outputs whose strides must be preserved.
        is_inference: no values are saved for a backward graph.
        is_backward: the graph is a backward graph.
        frozen: parameters are constants of the graph.

    Returns:
        A boxed function of CPU tensors, and the strides of its outputs (None if they are as traced).
    """
    *_, output = graph_module.graph.nodes
    output.meta["user_visible_output_idxs"] = list(fixed_stride_outputs)
    fake_mode = detect_fake_mode(inputs)
    with contextlib.ExitStack() as stack:
        # Constants of the graph are real tensors, which the fake mode must accept.
        if fake_mode is not None:
            stack.callback(setattr, fake_mode, "allow_non_fake_inputs", fake_mode.allow_non_fake_inputs)
            fake_mode.allow_non_fake_inputs = True
            stack.enter_context(V.set_fake_mode(fake_mode))
        if frozen:
            stack.enter_context(inductor_config.patch(freezing=True))
        stack.enter_context(_inputs_not_overwritten())
        stack.enter_context(cache_config.use_configured_inductor_cache())
        if (threads := compile_threads.compile_thread_count()) is not None:
            stack.enter_context(inductor_config.patch(compile_threads=threads))
        strides = stack.enter_context(TracingContext.report_output_strides())
        code = compile_fx.compile_fx_inner(
            graph_module, list(inputs), is_inference=is_inference, is_backward=is_backward
        )
        return getattr(code, "current_callable", None) or code, list(strides) if strides else None


@contextlib.contextmanager
def _inputs_not_overwritten() -> Iterator[None]:
    """Return a context in which Inductor's code does not overwrite its inputs to save memory.

    AOTAutograd lists, by position, saved tensors that a backward graph may overwrite. In a partition of the
    graph these positions denote different tensors, and another partition may still read an overwritten
    tensor. Therefore the list is removed for all partitions. Inductor's cache key does not contain the list,
    so code compiled without the list gets separate cache keys.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    before = getattr(metadata, "bw_donated_idxs", None)
    with contextlib.ExitStack() as stack:
        # Older releases of torch do not have the setting cache_key_tag.
        compiler_config: Any = getattr(torch.compiler, "config", None)
        if hasattr(compiler_config, "cache_key_tag"):
            tag = f"{compiler_config.cache_key_tag}hpu_backend"
            stack.enter_context(compiler_config.patch(cache_key_tag=tag))
        if metadata is not None and before is not None:
            metadata.bw_donated_idxs = None
            stack.callback(setattr, metadata, "bw_donated_idxs", before)
        yield


def _joint_settings(constant_folding: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"joint_graph_constant_folding": constant_folding}
    # With one of these settings on, the CPU's generator would produce the random numbers.
    for name, value in (("fallback_random", False), ("align_random_eager", False)):
        if hasattr(inductor_config, name):
            settings[name] = value
    return settings


def _input_device_argument(function: Callable[..., Any]) -> dict[str, Any]:
    # Inductor builds attention patterns for the device `input_device`. The compiled code runs on the CPU.
    return {"input_device": _CPU} if "input_device" in inspect.signature(function).parameters else {}
