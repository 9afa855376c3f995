"""A target that declares every dtype and capability, for plans that do not run on a device."""

from __future__ import annotations

from conformance.model.vocabulary import MODES
from conformance.target.file import DTYPES, HOOKS
from conformance.target.target import Target


def unrestricted_target(mode: str = "eager", *, missing_hook: str | None = None) -> Target:
    """Return a target with all dtypes of the CPU, all capabilities, and all hooks except ``missing_hook``.

    The target does not correspond to a device, and nothing can run on it.
    """
    return Target(
        name="neutral",
        module=None,
        device="privateuseone",
        dtypes=frozenset(DTYPES),
        capabilities={},
        hooks={hook_name: "none:none" for hook_name in HOOKS if hook_name != missing_hook},
        modes=MODES,
        mode=mode,
        fused_options={},
    )
