"""`make_graphed_callables`: functions and modules whose forward and backward passes are graphs.

Each pass is captured once, with sample arguments. On every call, the tensors that forward saves for backward
are outputs of the forward graph and inputs of the backward graph. Therefore, as without graphs, a callable
can run several times before its backward passes, and gradients can be accumulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.autograd.graph import saved_tensors_hooks

from .capture import HPUGraph, graph, is_current_stream_capturing, preserve_random_state
from .pytree_keys import TensorPacker, replace_tensors, require_supported_leaf_types, tensors_of

_Tensors = list[torch.Tensor]


def make_graphed_callables(
    callables: Callable[..., Any] | tuple[Callable[..., Any], ...],
    sample_args: tuple[Any, ...],
    warmups: int = 0,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
) -> Any:
    """Capture the forward and backward pass of functions or modules.

    Args:
        callables: one callable, or a tuple of callables. A module keeps its identity and gets a new
            `forward`. While `training` differs from its value at capture, the module runs its original
            forward.
        sample_args: a tuple of tensors for one callable; for several callables, a tuple of one tuple for
            each. Later calls must pass tensors with the same shapes, dtypes and `requires_grad`.
        warmups: number of forward and backward passes before the capture.
        allow_unused_input: accept arguments and parameters that get no gradient.
        asynchronous: replays return before their work is finished.
        disable_tensor_cache: accepted, not used; results are never in the memory of the graph.
        dry_run: capture without executing.

    Returns:
        `callables` with graphs: each module itself, and a new callable in place of each function.

    Raises:
        AssertionError: a module has hooks, or a buffer that requires grad; an argument is not an hpu tensor.
        pytree_keys.Uncacheable: a result has an unknown type, which may contain tensors.
        RuntimeError: an input gets no gradient and `allow_unused_input` is false; or as for
            `HPUGraph.capture_begin`.
    """
    single = not isinstance(callables, tuple)
    functions = callables if isinstance(callables, tuple) else (callables,)
    samples = (sample_args,) if single else sample_args
    assert len(functions) == len(samples), (
        f"{len(functions)} callables and {len(samples)} tuples of sample arguments: pass one tuple for each "
        "callable"
    )
    graphed = []
    for function, arguments in zip(functions, samples, strict=True):
        require_graphable_module(function)
        for argument in arguments:
            assert isinstance(argument, torch.Tensor), (
                f"sample_args must contain only tensors, but contain a {type(argument).__name__}. Remove "
                "other arguments from the signature."
            )
            assert argument.device.type == DEVICE_TYPE, (
                f"sample_args must be on {DEVICE_TYPE}, but one is on {argument.device}, whose values would "
                f"be constants of the graph. Move it with .to('{DEVICE_TYPE}')."
            )
        passes = GraphedPasses(
            function,
            parameters_of(function),
            arguments,
            warmups=warmups,
            allow_unused_input=allow_unused_input,
            asynchronous=asynchronous,
            dry_run=dry_run,
        )
        graphed.append(_graphed_callable(function, passes))
    return graphed[0] if single else tuple(graphed)


def require_graphable_module(function: Any) -> None:
    """Raise AssertionError if `function` is a module that cannot be captured. Plain functions are accepted.

    Raises:
        AssertionError: the module has hooks, or a buffer that requires grad.
    """
    if not isinstance(function, torch.nn.Module):
        return
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for part in function.modules():
        assert not any(getattr(part, name, None) for name in hooks), (
            f"a {type(part).__name__} has hooks, which graphs do not call. Register them after the capture."
        )
    for name, buffer in function.named_buffers():
        assert not buffer.requires_grad, (
            f"buffer {name} requires grad, but graphs compute gradients of parameters only. Make it a "
            "parameter."
        )


def parameters_of(function: Any) -> tuple[torch.nn.Parameter, ...]:
    """Return the parameters of a module that require grad, or an empty tuple for a function."""
    if not isinstance(function, torch.nn.Module):
        return ()
    return tuple(parameter for parameter in function.parameters() if parameter.requires_grad)


class GraphedPasses:
    """The captured forward and backward pass of a function, called like the function itself.

    Args:
        function: the function to capture.
        parameters: tensors that get gradients, in addition to the arguments.
        sample_arguments: arguments of the captured call, which may be nested. Later calls pass other tensors.
        warmups, allow_unused_input, asynchronous, dry_run: see `make_graphed_callables`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Sequence[torch.Tensor],
        sample_arguments: Sequence[Any],
        *,
        sample_keywords: dict[str, Any] | None = None,
        warmups: int = 0,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._parameters = tuple(parameters)
        self._asynchronous = asynchronous
        self._allow_unused = allow_unused_input
        self._results = TensorPacker(is_out_pack=True)
        arguments, keywords = _detached_copy((tuple(sample_arguments), sample_keywords or {}))
        self._inputs = tensors_of((arguments, keywords))
        with torch.enable_grad(), preserve_random_state():
            for _ in range(warmups):
                self._warm_up(lambda: function(*arguments, **keywords))
            self._capture(lambda: function(*arguments, **keywords), dry_run)
        del self._inputs

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the forward graph and return its results. Backpropagation runs the backward graph."""
        tensors = tensors_of((arguments, keywords))
        results = _Replay.apply(self, len(tensors), *tensors, *self._parameters)  # type: ignore[no-untyped-call]
        return self._results.unpack(results)

    def _gradient_targets(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors that get gradients, in the order of the inputs of `_Replay`."""
        return (*(tensor for tensor in self._inputs if tensor.requires_grad), *self._parameters)

    def _warm_up(self, function: Callable[[], Any]) -> None:
        results = [tensor for tensor in tensors_of(function()) if tensor.requires_grad]
        targets = self._gradient_targets()
        if results and targets:
            gradients = [torch.zeros_like(result) for result in results]
            torch.autograd.grad(results, targets, gradients, allow_unused=self._allow_unused)

    def _capture(self, function: Callable[[], Any], dry_run: bool) -> None:
        forward, backward = HPUGraph(), HPUGraph()
        saved: _Tensors = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            # A saved result with autograd history would form a reference cycle: the result keeps its history
            # alive, and the history keeps the saved result alive.
            tensor = tensor.detach()
            saved.append(tensor)
            return tensor

        with graph(forward, dry_run=dry_run), saved_tensors_hooks(pack, lambda tensor: tensor):
            value = function()
            results = list(self._results.pack(value)[0])
        require_supported_leaf_types(value)
        del value
        targets = self._gradient_targets()
        differentiable = [result.requires_grad and bool(targets) for result in results]
        gradients: _Tensors = []
        input_gradients: Sequence[torch.Tensor | None] = ()
        if any(differentiable):
            pairs = zip(results, differentiable, strict=True)
            flowing = [result for result, has_gradient in pairs if has_gradient]
            gradients = [torch.zeros_like(result, requires_grad=False) for result in flowing]
            with graph(backward, dry_run=dry_run):
                input_gradients = torch.autograd.grad(
                    flowing, targets, gradients, allow_unused=self._allow_unused
                )
            del flowing
        results = [result.detach() for result in results]
        self._differentiable = differentiable
        self._forward = forward.bind_io(self._inputs, [*results, *saved])
        self._number_of_results = len(results)
        if gradients:
            arrived = [tensor for tensor in input_gradients if tensor is not None]
            self._backward = backward.bind_io([*gradients, *saved], arrived)
        #: For each argument tensor and parameter: whether backward computes a gradient for it.
        self._is_target = [
            *(tensor.requires_grad for tensor in self._inputs),
            *(True for _ in self._parameters),
        ]
        #: For each tensor that is differentiated: whether its gradient is not None.
        self._gets_gradient = [tensor is not None for tensor in input_gradients]

    def forward(self, inputs: Sequence[torch.Tensor]) -> tuple[_Tensors, _Tensors]:
        """Replay the forward graph. Return the results and the tensors saved for backward."""
        values = self._forward.run(inputs, self._asynchronous)
        return values[: self._number_of_results], values[self._number_of_results :]

    def non_differentiable_results(self, results: Sequence[torch.Tensor]) -> _Tensors:
        """Return those of the forward results that are not differentiable."""
        pairs = zip(results, self._differentiable, strict=True)
        return [result for result, has_gradient in pairs if not has_gradient]

    def backward(
        self, gradients: Sequence[torch.Tensor], saved: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        """Replay the backward graph. Return a gradient or None for each argument tensor and parameter."""
        pairs = zip(gradients, self._differentiable, strict=True)
        flowing = [gradient for gradient, has_gradient in pairs if has_gradient]
        values = iter(self._backward.run([*flowing, *saved], self._asynchronous))
        of_targets = iter([next(values) if arrives else None for arrives in self._gets_gradient])
        return [next(of_targets) if is_target else None for is_target in self._is_target]


class _Replay(torch.autograd.Function):
    """Autograd function whose forward and backward pass replay the two captured graphs."""

    @staticmethod
    def forward(ctx: Any, passes: GraphedPasses, count: int, *tensors: torch.Tensor) -> Any:
        results, saved = passes.forward(tensors[:count])
        ctx.passes = passes
        ctx.versions = _saved_arguments_with_versions(tensors, saved)
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(*passes.non_differentiable_results(results))
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        for tensor, version in ctx.versions:
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: an argument or parameter of shape {list(tensor.shape)} of a graphed "
                    f"callable is at version {tensor._version}; expected version {version}. Clone it before "
                    "the change."
                )
        return None, None, *ctx.passes.backward(gradients, ctx.saved_tensors)


def _saved_arguments_with_versions(
    tensors: Sequence[torch.Tensor], saved: Sequence[torch.Tensor]
) -> list[tuple[torch.Tensor, int]]:
    """Return the arguments whose memory is saved for backward, each with its version counter.

    The version counters of the saved tensors themselves do not change with the arguments, because a replay
    returns new tensors.
    """
    storages = {tensor.untyped_storage()._cdata for tensor in saved}
    return [
        (tensor, tensor._version)
        for tensor in tensors
        if tensor.untyped_storage()._cdata in storages and not tensor.is_inference()
    ]


def _detached_copy(value: Any) -> Any:
    """Return a copy of a nested value whose tensors share memory with the originals and have no history."""
    tensors = tensors_of(value)
    return replace_tensors(
        value, [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
    )


def _graphed_callable(function: Any, passes: GraphedPasses) -> Any:
    if not isinstance(function, torch.nn.Module):
        return passes
    original, training = function.forward, function.training

    def forward(*arguments: Any, **keywords: Any) -> Any:
        # Inside another capture, run the original forward, so that its work is captured in the outer graph.
        if function.training == training and not is_current_stream_capturing():
            return passes(*arguments, **keywords)
        return original(*arguments, **keywords)

    function.forward = forward
    return function
