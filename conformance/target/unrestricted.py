"""A target that promises everything, for plans that no device runs."""

from __future__ import annotations

from conformance.model.vocabulary import MODES
from conformance.target.file import DTYPES, HOOKS
from conformance.target.target import Target


def neutral(mode: str = "eager", *, without: str | None = None) -> Target:
    """Return a target that can do everything: all dtypes of the CPU, all capabilities, all hooks but one.

    It is no device, and nothing ever runs on it.
    """
    return Target(
        name="neutral",
        module=None,
        device="privateuseone",
        dtypes=frozenset(DTYPES),
        capabilities={},
        hooks={word: "none:none" for word in HOOKS if word != without},
        modes=MODES,
        mode=mode,
        fused_options={},
    )
