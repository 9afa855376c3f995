"""A target: one backend in one mode on one torch build, as a target file (TOML) describes it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Target:
    """The facts about a target that a check may use.

    ``dtypes`` are the names of the declared dtypes, such as ``float32``. ``capabilities`` maps a name of
    :data:`conformance.model.vocabulary.CAPABILITIES` to True if the capability is declared; a capability that
    is not in the mapping is declared too. ``unsupported`` maps patterns of result ids
    (``value/fft.*@float16``) to the reason why these results may be refused. ``dtype_overrides`` maps the
    full name of an operator to the dtypes in which the operator is declared. ``hooks`` maps names of
    :data:`conformance.target.file.HOOKS` to ``module:function`` strings.

    ``torch.compile`` receives ``compile_backend`` and ``compile_options`` in mode ``compile``.
    ``fused_options`` are the options with which the backend fuses operators, or None.
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
    #: The operators that autocast casts, in the lists of :data:`conformance.target.file.AUTOCAST_LISTS`.
    autocast: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    #: Undeclared capabilities whose use crashes the process. A check that needs one of them does not run.
    crashing: frozenset[str] = frozenset()
    #: Name of the process group backend in mode ``distributed``; None means torch's default for the device.
    process_group: str | None = None
    #: If True, rank N uses device N. Otherwise a rank uses the only device that its process can access.
    device_per_rank: bool = False
    #: The path of the target file, for child processes.
    file: str = ""
    #: If True, each check runs twice and only the second run counts.
    rehearses: bool = False

    def on_cpu(self) -> Target:
        """Return a target with the same declarations that runs on the CPU in eager mode."""
        return dataclasses.replace(
            self, name="cpu", module=None, device="cpu", hooks={}, mode="eager", rehearses=False
        )

    @property
    def is_cpu(self) -> bool:
        """True if the target's device is the CPU."""
        return self.kind == "cpu"

    @property
    def kind(self) -> str:
        """The type of the device: ``hpu`` for ``hpu:0``. It is cut from the text, because ``torch.device``
        may reject the text before the backend is imported.
        """
        return self.device.partition(":")[0]

    @property
    def elsewhere(self) -> bool:
        """True in mode ``distributed``: only the processes of the ranks use the device. This process compares
        their results.
        """
        return self.mode == "distributed"

    def declares(self, dtype: str) -> bool:
        """Return whether the target declares a dtype, given by its name (``float32``)."""
        return dtype in self.dtypes

    def capable(self, capability: str) -> bool:
        """Return whether the target declares a capability. A capability that the target file does not
        mention is declared.
        """
        return self.capabilities.get(capability, True)

    @property
    def has_arbitrary_strides(self) -> bool:
        """True if samples may have any strides and storage offset. Otherwise they are copied contiguously."""
        return self.capable("strides") and self.capable("non_contiguous")

    def synchronize(self) -> None:
        """Wait for the device, by the hook of the target file or by ``torch.accelerator``.

        Without the hook, this method does nothing if ``asynchronous`` is not declared: the device then
        finishes each call before the call returns. In mode ``distributed``, this process does not use the
        device, and this method does nothing.
        """
        if self.elsewhere:
            return
        self.wait()

    def wait(self) -> None:
        """Wait for the device in a process that uses it, such as a rank in mode ``distributed``."""
        hook = self.hook("synchronize")
        if hook is not None:
            hook()
        elif self.is_known_to_torch_accelerator and self.capable("asynchronous"):
            torch.accelerator.synchronize()

    @property
    def is_known_to_torch_accelerator(self) -> bool:
        """True if ``torch.accelerator`` and ``torch.get_device_module`` know the device."""
        return not self.is_cpu and self.capable("accelerator")

    def manual_seed(self, seed: int) -> None:
        """Call ``torch.manual_seed``, and the hook ``manual_seed`` if the target file has it, because
        ``torch.manual_seed`` does not reach a device that ``torch.accelerator`` does not know.
        """
        torch.manual_seed(seed)
        hook = None if self.is_cpu else self.hook("manual_seed")
        if hook is not None:
            hook(seed)

    def seed(self, seed: int) -> None:
        """Seed the generator of each device, by the hook of the target file or by the device's module."""
        if self.is_cpu or self.elsewhere:
            return
        hook = self.hook("manual_seed")
        if hook is None and self.is_known_to_torch_accelerator:
            hook = getattr(torch.get_device_module(self.device), "manual_seed_all", None)
        if hook is not None:
            hook(seed)

    def device_count(self) -> int:
        """Return the number of devices, by the hook of the target file or by ``torch.accelerator``."""
        hook = self.hook("device_count")
        if hook is not None:
            return int(hook())
        return torch.accelerator.device_count() if self.is_known_to_torch_accelerator else 1

    def fallbacks(self) -> int | None:
        """Return the number of operator calls that fell back to the CPU so far; None if the target has no
        hook that counts them.
        """
        hook = self.hook("count_fallbacks")
        if hook is None:
            return None
        counts = hook()
        return int(sum(counts.values())) if isinstance(counts, Mapping) else int(counts)

    def mark_step(self) -> None:
        """End the graph that lazy mode is recording and start it, if the target has the hook
        ``mark_step``.
        """
        hook = self.hook("mark_step")
        if hook is not None:
            hook()

    def executed(self) -> dict[str, int] | None:
        """Return, for each operator, the number of calls that ran from a graph or a queue so far. Return None
        if the target has no hook ``executed_ops``.
        """
        hook = self.hook("executed_ops")
        return None if hook is None else {str(name): int(count) for name, count in hook().items()}

    def compiled(self) -> dict[str, int] | None:
        """Return the number of graphs that ran so far by kind of executable. Return None if the target has no
        hook ``compiled_graphs``.
        """
        hook = self.hook("compiled_graphs")
        return None if hook is None else {str(name): int(count) for name, count in hook().items()}

    @property
    def has_graphs(self) -> bool:
        """True if a graph can be captured, by the hook of the target file or by
        ``torch.accelerator.Graph``.
        """
        return "graph" in self.hooks or (
            self.is_known_to_torch_accelerator and hasattr(torch.accelerator, "Graph")
        )

    def graph(self) -> Any:
        """Return a new device graph: an object with ``capture_begin()``, ``capture_end()`` and
        ``replay()``.
        """
        hook = self.hook("graph")
        return torch.accelerator.Graph() if hook is None else hook()

    @property
    def torch_device(self) -> torch.device:
        """The device as a ``torch.device``. Raise RuntimeError if torch rejects the device type."""
        return torch.device(self.device)

    def hook(self, hook_name: str) -> Callable[..., Any] | None:
        """Return the function of a hook, or None if the target file does not declare the hook."""
        reference = self.hooks.get(hook_name)
        if reference is None:
            return None
        module, _, attribute = reference.partition(":")
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
        return value  # type: ignore[no-any-return]
