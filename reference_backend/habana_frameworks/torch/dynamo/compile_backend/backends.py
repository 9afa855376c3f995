"""The backend: compile a Dynamo graph to a callable, through AOTAutograd."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._subclasses import FakeTensorMode

from . import compilers, config, inductor, recipe_kind
from .decompositions import decomposition_table
from .log import logger
from .option_values import env_bool
from .options import merged_options


def hpu_backend(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph for hpu. ``torch.compile(..., backend="hpu_backend")`` calls this function.

    Args:
        graph_module: the graph.
        example_inputs: fake or real inputs of the graph, and symbolic sizes.
        options: options of `config` for this compilation.
        mode: the mode that `torch.compile` passes. The backend ignores the argument, with a warning.

    Raises:
        RuntimeError: ``PT_HPU_DISALLOW_TORCH_COMPILE`` is set, or an option is unknown.
        AssertionError: an option has an invalid value, or a recipe cannot contain an operator and
            ``use_eager_fallback`` is off.
    """
    if env_bool("PT_HPU_DISALLOW_TORCH_COMPILE", False):
        raise RuntimeError(
            "torch.compile is disabled by PT_HPU_DISALLOW_TORCH_COMPILE. Unset it, or run eagerly."
        )
    if mode:
        logger.warning("mode=%r has no effect, because hpu_backend has one mode", mode)
    settings = merged_options(config, options)
    is_dynamic = any(isinstance(value, torch.SymInt) for value in example_inputs)
    executable = recipe_kind.choose_recipe_kind(settings, is_dynamic)
    fake_mode = detect_fake_mode(example_inputs) or FakeTensorMode(allow_non_fake_inputs=True)
    compiler = compilers.GraphCompiler(settings, executable, fake_mode, graph_module)
    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(settings))  # type: ignore[attr-defined]
        stack.enter_context(inductor.virtual_fake_mode(fake_mode))
        stack.enter_context(tracing(TracingContext.try_get() or TracingContext(fake_mode)))
        if "unlift_effect_tokens" in functorch_config.get_config_copy():
            stack.enter_context(functorch_config.patch(unlift_effect_tokens=True))
        compile_graph = aot_autograd(
            fw_compiler=compiler.forward,
            bw_compiler=compiler.backward,
            inference_compiler=compiler.inference if settings["inference"] else compiler.forward,
            decompositions=decomposition_table(settings["decomposition_mode"], executable == "fused"),
            partition_fn=compiler.partition,
            keep_inference_input_mutations=bool(settings["keep_input_mutations"]),
        )
        return compile_graph(graph_module, example_inputs)
