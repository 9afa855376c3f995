"""Samples of optimizers: options, parameters and a sequence of gradients.

Samples are made on the CPU from a seed of (optimizer, dtype). :meth:`OptimizerSample.problem` returns private
copies on a device.
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
from conformance.samples.operators import dtype_name
from conformance.subjects.torch_databases import Subject, find

#: The number of optimizer steps in each check.
STEP_COUNT = 4
#: Shapes of the parameters. The third has swapped dimensions in memory, and the last has no elements.
_SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (5,), (4, 3), (), (2, 3, 2), (0, 3))
#: Muon accepts matrices only.
_MATRICES: tuple[tuple[int, ...], ...] = ((3, 4), (6, 2), (4, 3))
_SWAPPED_INDEX = 2

Optimizer = torch.optim.Optimizer


@dataclasses.dataclass
class OptimizationProblem:
    """Private parameters on one device, with their gradients for each step."""

    parameters: list[torch.Tensor]
    gradients: list[list[torch.Tensor]]

    def set_gradients(self, step: int, parameters: Sequence[torch.Tensor] | None = None) -> None:
        """Set the gradients of the parameters for a step."""
        for parameter, gradient in zip(parameters or self.parameters, self.gradients[step], strict=True):
            parameter.grad = gradient.clone()


@dataclasses.dataclass
class OptimizerSample:
    """One set of options of one optimizer."""

    index: int
    optimizer_cls: Callable[..., Optimizer]
    options: dict[str, Any]
    description: str
    dtype: torch.dtype
    parameters: list[torch.Tensor]
    gradients: list[list[torch.Tensor]]
    seed: int
    needs_closure: bool

    @property
    def capturable(self) -> bool:
        """True if the options contain ``capturable=True``."""
        return bool(self.options.get("capturable", False))

    @property
    def tensor_lr(self) -> bool:
        """True if the learning rate is a tensor."""
        return isinstance(self.options.get("lr"), torch.Tensor)

    def problem(self, copier: Copier | None = None) -> OptimizationProblem:
        """Return private copies of the parameters and gradients, by default on the CPU."""
        copier = copier or Copier(torch.device("cpu"))
        parameters, gradients = copier.copy_tree((self.parameters, self.gradients))
        return OptimizationProblem([parameter.requires_grad_(True) for parameter in parameters], gradients)

    def build(self, parameters: Any, **options: Any) -> Optimizer:
        """Return an optimizer for ``parameters`` with private copies of the sample's options, overridden by
        ``options``.
        """
        return self.optimizer_cls(parameters, **{**copy.deepcopy(self.options), **options})

    def describe(self) -> str:
        """Return the options in one short line."""
        name = getattr(self.optimizer_cls, "__name__", "optimizer")
        return f"{name}({', '.join(f'{key}={value}' for key, value in self.options.items())})"


_cache: SubjectCache[tuple[str, bool], Sequence[OptimizerSample]] = SubjectCache()


def optimizer_samples(subject: Subject, dtype: torch.dtype, *, capturable: bool) -> Sequence[OptimizerSample]:
    """Return the shared samples of (optimizer, dtype). With ``capturable``, samples with ``capturable=True``
    are included.
    """

    def make() -> Sequence[OptimizerSample]:
        return _make_samples(find(subject.kind, subject.name).info, subject.name, dtype, capturable)

    return _cache.value(subject.name, (dtype_name(dtype), capturable), make)


def _make_samples(info: Any, name: str, dtype: torch.dtype, capturable: bool) -> list[OptimizerSample]:
    seed = torch_testing_internals.seed_for("optimizer", name, dtype_name(dtype))
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex64 if dtype.is_complex else torch.float32

    def values(shape: tuple[int, ...], swapped: bool = False) -> torch.Tensor:
        normal = torch.randn(shape, generator=generator, dtype=wide).to(dtype)
        return normal.t().contiguous().t() if swapped else normal

    shapes = _MATRICES if name == "Muon" else _SHAPES
    if name == "Adafactor":  # Adafactor divides by the number of elements: omit empty parameters
        shapes = tuple(shape for shape in shapes if 0 not in shape)
    swapped = _SWAPPED_INDEX if name != "LBFGS" else None  # LBFGS calls view(-1) on the gradients
    parameters = [values(shape, index == swapped) for index, shape in enumerate(shapes)]
    gradients = [
        [values(shape, index == _SWAPPED_INDEX) for index, shape in enumerate(shapes)]
        for _ in range(STEP_COUNT)
    ]
    return [
        OptimizerSample(
            index=index,
            optimizer_cls=info.optim_cls,
            options=dict(item.kwargs),
            description=item.desc,
            dtype=dtype,
            parameters=parameters,
            gradients=gradients,
            seed=seed,
            needs_closure=bool(info.step_requires_closure),
        )
        for index, item in enumerate(torch_testing_internals.optimizer_inputs(info, capturable=capturable))
    ]


def clear_cache() -> None:
    """Delete all cached samples (for tests)."""
    _cache.clear()
