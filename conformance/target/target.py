"""A target: one backend in one mode on one torch build, as described by a target file (TOML)."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

PRECISION_CLASSES = ("ieee", "tf32", "flush-denormals")


@dataclasses.dataclass(frozen=True)
class Target:
    """What a property may know about the target.

    ``dtypes`` are the names (``float32``) the device declares; ``capabilities`` maps the words of
    :mod:`conformance.plan.needs` to whether they are declared; a missing word counts as declared.
    ``unsupported`` maps result-id patterns (``value/fft.*@float16``) to the reason for which a refusal is
    declared. ``dtype_overrides`` maps an operator's full name to the dtype names it is declared for.
    ``hooks`` maps the words of :data:`conformance.target.file.HOOKS` to ``module:function`` strings.
    ``compile_backend`` and ``compile_options`` are what ``torch.compile`` is given in mode ``compile``;
    ``fused_options`` are the options with which the backend fuses operators, None where it has none.
    """

    name: str
    module: str | None
    device: str
    dtypes: frozenset[str]
    capabilities: dict[str, bool]
    precision: str = "ieee"
    unsupported: dict[str, str] = dataclasses.field(default_factory=dict)
    dtype_overrides: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    hooks: dict[str, str] = dataclasses.field(default_factory=dict)
    modes: Sequence[str] = ("eager",)
    mode: str = "eager"
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    compile_backend: str = "inductor"
    compile_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    fused_options: dict[str, Any] | None = None
    #: Name of the process group backend in mode ``distributed``; None for torch's default for the device.
    process_group: str | None = None
    #: Whether a rank uses the device of its number, rather than the one device that its process sees.
    device_per_rank: bool = False
    #: The path of the target file, for processes that work for this one.
    file: str = ""
    #: Each check runs twice and the second run counts.
    rehearses: bool = False

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def kind(self) -> str:
        """The type of the device (``hpu`` of ``hpu:0``), which torch may not know without the backend."""
        return self.device.partition(":")[0]

    @property
    def elsewhere(self) -> bool:
        """Whether only other processes, the ranks, use the device: this one compares what they found."""
        return self.mode == "distributed"

    def declares(self, dtype: str) -> bool:
        """Whether the device declares the dtype of that name."""
        return dtype in self.dtypes

    def capable(self, word: str) -> bool:
        """Whether the capability is declared; capabilities that the file does not mention are."""
        return self.capabilities.get(word, True)

    def synchronize(self) -> None:
        """Wait for the device; the file's own hook, else ``torch.accelerator``.

        A device that is declared not to be asynchronous has finished when a call returns; it may lack both.
        """
        if self.elsewhere:
            return
        self.wait()

    def wait(self) -> None:
        """Wait for the device in a process that uses it, a rank in mode ``distributed``."""
        hook = self.hook("synchronize")
        if hook is not None:
            hook()
        elif not self.is_cpu and self.capable("asynchronous"):
            torch.accelerator.synchronize()

    def fallbacks(self) -> int | None:
        """How many operators the target says it has run on the CPU so far, or None where it does not count.

        The hook returns a number, or a mapping from operators to numbers.
        """
        hook = self.hook("count_fallbacks")
        if hook is None:
            return None
        counted = hook()
        return int(sum(counted.values())) if isinstance(counted, Mapping) else int(counted)

    def mark_step(self) -> None:
        """End the graph that lazy mode is recording, where the file says how."""
        hook = self.hook("mark_step")
        if hook is not None:
            hook()

    def executed(self) -> dict[str, int] | None:
        """How many calls of each operator ran from a graph or a queue so far, or None where it is not
        counted.
        """
        hook = self.hook("executed_ops")
        return None if hook is None else {str(name): int(count) for name, count in hook().items()}

    def compiled(self) -> dict[str, int] | None:
        """How many graphs ran as which kind of executable so far, or None where that is not counted."""
        hook = self.hook("compiled_graphs")
        return None if hook is None else {str(name): int(count) for name, count in hook().items()}

    @property
    def has_graphs(self) -> bool:
        """Whether there is a way to capture a graph: the file's hook, else ``torch.accelerator.Graph``."""
        return "graph" in self.hooks or (not self.is_cpu and hasattr(torch.accelerator, "Graph"))

    def graph(self) -> Any:
        """A fresh device graph: an object with ``capture_begin()``, ``capture_end()`` and ``replay()``."""
        hook = self.hook("graph")
        return torch.accelerator.Graph() if hook is None else hook()

    def hook(self, word: str) -> Callable[..., Any] | None:
        """The callable behind a hook word, or None where the file names none."""
        text = self.hooks.get(word)
        if text is None:
            return None
        module, _, attribute = text.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]
