"""Samples of modules: a module with parameters of its own, and the arguments of one call.

They are made on the CPU from a seed of (module, dtype) only, once per process, and shared by all properties.
The shared modules and arguments are never handed out: :meth:`ModuleSample.module` and
:meth:`ModuleSample.arguments` make private copies.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import Copier
from conformance.samples.operators import dtype_name, evenly
from conformance.subjects.torch_databases import Subject, find

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass
class ModuleSample:
    """One call of one module. ``constructor`` and ``call`` hold (args, kwargs) as torch's database made them.

    ``random`` says that the values of the call come from a random number generator.
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
            with torch_testing_internals.torch_seeded(self.seed), torch_testing_internals.quiet():
                self._module = self._build()
        return copy.deepcopy(self._module)

    def arguments(
        self, device: torch.device | str = "cpu", dtypes: Mapping[torch.dtype, torch.dtype] | None = None
    ) -> Arguments:
        """Return a private copy of the call's (args, kwargs); differentiable inputs are leaves that require
        grad.

        Raises :class:`conformance.samples.copies.WrongCopy` if the copy does not hold what was copied.
        """
        args, kwargs = Copier(torch.device(device), dtypes).tree(self.call)
        return args, kwargs

    def construct(self, **factory: Any) -> torch.nn.Module:
        """Return a new module from private copies of the arguments; ``factory`` may name device and dtype."""
        args, kwargs = copy.deepcopy(self.constructor)
        return self.module_cls(*args, **{**kwargs, **factory})

    def describe(self) -> str:
        """Return the constructor's arguments and the mode in one short line."""
        args, kwargs = self.constructor
        words = [_word(arg) for arg in args] + [f"{key}={_word(value)}" for key, value in kwargs.items()]
        mode = "train" if self.training else "eval"
        text = f"{self.module_cls.__name__}({', '.join(words)}) in {mode} mode"
        return text if len(text) <= 200 else text[:197] + "..."

    def _build(self) -> torch.nn.Module:
        module = self.construct().to(self.dtype).train(self.training)
        args, kwargs = self.arguments()
        if is_lazy(module):
            with torch.no_grad():
                module(*args, **kwargs)
        _enliven(module)
        return module


def _placeless(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without a device: the properties themselves choose the device of a module."""
    return {key: value for key, value in kwargs.items() if key != "device"}


def _word(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)}{list(value.shape)}"
    return type(value).__name__ if isinstance(value, torch.nn.Module) else repr(value)[:40]


def is_lazy(module: torch.nn.Module) -> bool:
    """Return whether the module still waits for its first input."""
    return isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params()


def _enliven(module: torch.nn.Module) -> None:
    """Move parameters and buffers off the constants that torch starts them from.

    A device that ignores a weight of one or a bias of zero would else go unseen.
    """
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
                continue
            if bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.rand(tensor.shape).mul_(0.4).add_(0.1).to(tensor.dtype))


@dataclasses.dataclass
class ModuleSamples:
    """The samples of one (module, dtype): those in train mode, then those in eval mode if it differs."""

    samples: Sequence[ModuleSample]

    @property
    def available(self) -> int:
        """Number of samples."""
        return len(self.samples)

    def chosen(
        self,
        limit: int | None,
        such_that: Callable[[ModuleSample], bool] | None = None,
        *,
        random: bool = False,
    ) -> list[ModuleSample]:
        """Return at most ``limit`` of the samples that fit, evenly spread; either the random or the other
        ones.
        """
        fitting = [
            sample
            for sample in self.samples
            if sample.random is random and (such_that is None or such_that(sample))
        ]
        if limit is None:
            return fitting
        return [fitting[index] for index in evenly(len(fitting), limit)]


_cache: SubjectCache[str, ModuleSamples] = SubjectCache()


def module_samples(subject: Subject, dtype: torch.dtype) -> ModuleSamples:
    """Return the shared samples of (module, dtype), made from torch's own record of the module."""

    def make() -> ModuleSamples:
        return _make(find(subject.kind, subject.name).info, subject.name, dtype)

    return _cache.value(subject.name, dtype_name(dtype), make)


def _make(info: Any, name: str, dtype: torch.dtype) -> ModuleSamples:
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
                        _placeless(item.constructor_input.kwargs),
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


def forget() -> None:
    """Drop all cached samples (for tests)."""
    _cache.clear()
