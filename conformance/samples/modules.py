"""Samples of modules: a module with its own parameters, and the arguments of one call.

Samples are made on the CPU, from a seed of (module, dtype), once per process. All properties share them. The
shared modules and arguments are never returned: :meth:`ModuleSample.module` and
:meth:`ModuleSample.arguments` return private copies.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import Copier
from conformance.samples.operators import dtype_name, evenly_spaced_indices
from conformance.subjects.torch_databases import Subject, find

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass
class ModuleSample:
    """One call of one module. ``constructor`` and ``call`` are the (args, kwargs) of the module's constructor
    and of the call, from torch's test database.

    ``random`` is true if the results depend on a random number generator.
    """

    index: int
    training: bool
    constructor: Arguments
    call: Arguments
    dtype: torch.dtype
    seed: int
    module_cls: type[torch.nn.Module]
    random: bool = False
    _module: torch.nn.Module | None = dataclasses.field(default=None, repr=False)

    def module(self) -> torch.nn.Module:
        """Return a private copy of the module on the CPU, in the dtype and mode of the sample."""
        if self._module is None:
            with torch_testing_internals.torch_seeded(self.seed), torch_testing_internals.silence_warnings():
                self._module = self._build()
        return copy.deepcopy(self._module)

    def arguments(self, copier: Copier | None = None) -> Arguments:
        """Return a private copy of the call's (args, kwargs), by default on the CPU. Differentiable inputs
        are leaves that require grad.

        Raise :class:`conformance.samples.copies.WrongCopy` if the copy differs from the original.
        """
        args, kwargs = (copier or Copier(torch.device("cpu"))).copy_tree(self.call)
        return args, kwargs

    def construct(self, **factory: Any) -> torch.nn.Module:
        """Return a new module made from private copies of the arguments. ``factory`` may contain device and
        dtype.
        """
        args, kwargs = copy.deepcopy(self.constructor)
        return self.module_cls(*args, **{**kwargs, **factory})

    def describe(self) -> str:
        """Return the constructor's arguments and the mode in one line of at most 200 characters."""
        args, kwargs = self.constructor
        argument_texts = [_describe_argument(arg) for arg in args] + [
            f"{key}={_describe_argument(value)}" for key, value in kwargs.items()
        ]
        mode = "train" if self.training else "eval"
        text = f"{self.module_cls.__name__}({', '.join(argument_texts)}) in {mode} mode"
        return text if len(text) <= 200 else text[:197] + "..."

    def _build(self) -> torch.nn.Module:
        module = self.construct().to(self.dtype).train(self.training)
        args, kwargs = self.arguments()
        if is_lazy(module):
            with torch.no_grad():
                module(*args, **kwargs)
        _randomise_constants(module)
        return module


def _without_device(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments without ``device``: each property chooses the device itself."""
    return {key: value for key, value in kwargs.items() if key != "device"}


def _describe_argument(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)}{list(value.shape)}"
    return type(value).__name__ if isinstance(value, torch.nn.Module) else repr(value)[:40]


def is_lazy(module: torch.nn.Module) -> bool:
    """Return whether the module has uninitialised parameters."""
    return isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params()


def _randomise_constants(module: torch.nn.Module) -> None:
    """Add random numbers to parameters and buffers whose elements are all equal.

    A device that ignores a weight of one or a bias of zero would return the right result.
    """
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
                continue
            if bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.rand(tensor.shape).mul_(0.4).add_(0.1).to(tensor.dtype))


@dataclasses.dataclass
class ModuleSamples:
    """The samples of one (module, dtype): first in train mode, then in eval mode if the module behaves
    differently in eval mode.
    """

    samples: Sequence[ModuleSample]

    @property
    def available(self) -> int:
        """The number of samples."""
        return len(self.samples)

    def chosen(
        self,
        limit: int | None,
        such_that: Callable[[ModuleSample], bool] | None = None,
        *,
        random: bool = False,
    ) -> list[ModuleSample]:
        """Return at most ``limit`` samples for which ``such_that`` returns True, evenly spread over the list.

        ``random`` selects the samples with random results, else the samples with deterministic results.
        """
        fitting = [
            sample
            for sample in self.samples
            if sample.random is random and (such_that is None or such_that(sample))
        ]
        if limit is None:
            return fitting
        return [fitting[index] for index in evenly_spaced_indices(len(fitting), limit)]


_cache: SubjectCache[str, ModuleSamples] = SubjectCache()


def module_samples(subject: Subject, dtype: torch.dtype) -> ModuleSamples:
    """Return the shared samples of (module, dtype), made from torch's own ModuleInfo."""

    def make() -> ModuleSamples:
        return _make_samples(find(subject.kind, subject.name).info, subject.name, dtype)

    return _cache.value(subject.name, dtype_name(dtype), make)


def _make_samples(info: Any, name: str, dtype: torch.dtype) -> ModuleSamples:
    samples: list[ModuleSample] = []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        seed = torch_testing_internals.seed_for(
            "module", name, dtype_name(dtype), "train" if training else "eval"
        )
        for item in torch_testing_internals.module_inputs(info, dtype, training=training, seed=seed):
            if item.forward_input is None:
                continue
            samples.append(
                ModuleSample(
                    index=len(samples),
                    training=training,
                    constructor=(
                        tuple(item.constructor_input.args),
                        _without_device(item.constructor_input.kwargs),
                    ),
                    call=(tuple(item.forward_input.args), dict(item.forward_input.kwargs)),
                    dtype=dtype,
                    seed=torch_testing_internals.seed_for(
                        "build", name, dtype_name(dtype), str(len(samples))
                    ),
                    module_cls=info.module_cls,
                    random=training and bool(getattr(info, "random", False)),
                )
            )
    return ModuleSamples(samples)


def clear_cache() -> None:
    """Delete all cached samples (for tests)."""
    _cache.clear()
