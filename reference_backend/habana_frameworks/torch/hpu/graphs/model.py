"""`GraphModel`: a wrapper module that trains a model with captured graphs."""

from __future__ import annotations

import inspect
from typing import Any

from habana_frameworks.torch.internal.settings import environment

import torch

from .cacher import GraphedForward


class GraphModel(torch.nn.Module):
    """Module that captures a model's forward and backward pass for each kind of inputs, and replays them.

    Graphs are used in eager and lazy mode, while the model is in training mode and gradients are enabled.
    Other calls run the model directly. Positional and keyword forms of a call share a graph.

    Args:
        model: the model, which is not changed. Its `forward` defines the argument names.
        max_graphs: maximum number of graphs. Above the maximum, the least recently used graph is removed.
        allow_unused_input, asynchronous, disable_tensor_cache, dry_run, verbose, log_frequency: as for
            `ModuleCacher`.

    Raises:
        AssertionError: the model is wrapped for several devices, or its `forward` takes ``*args``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
        max_graphs: int = 10,
        verbose: bool = False,
        log_frequency: int = 100,
    ) -> None:
        super().__init__()
        wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
        assert not isinstance(model, wrappers), (
            f"a graph would not contain the communication of {type(model).__name__}. Pass the inner model, "
            f"and wrap the GraphModel in {type(model).__name__}."
        )
        self._signature = inspect.signature(model.forward)
        assert not any(
            parameter.kind is parameter.VAR_POSITIONAL for parameter in self._signature.parameters.values()
        ), (
            f"the forward of {type(model).__name__} takes *args, so its inputs have no names. Replace *args "
            "by named parameters."
        )
        self.model = model
        self._cache = GraphedForward(
            model,
            max_graphs,
            use_lfu=False,
            lazy_only=False,
            allow_unused_input=allow_unused_input,
            asynchronous=asynchronous,
            dry_run=dry_run or bool(environment.read_variable("PT_HPUGRAPH_ENABLE_DRY_RUN", "bool", False)),
            verbose=verbose,
            log_frequency=log_frequency,
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model: replay or capture a graph if possible, else run the model directly."""
        bound = self._signature.bind(*args, **kwargs)
        return self._cache(*bound.args, **bound.kwargs)
