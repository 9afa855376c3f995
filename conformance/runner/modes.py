"""The modes of a run: those that the user names, else all that the installed torch can run."""

from __future__ import annotations

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.target.file import TargetFile


def runs_on(target: TargetFile, mode: str, torch_version: str) -> bool:
    """Return True if a target's mode runs on a build of torch, by ``mode_builds`` of its file."""
    word = target.mode_builds.get(mode, "any")
    return word == "any" or (word == "fork-like") == installed_torch.is_fork_like(torch_version)


def chosen(target: TargetFile, words: str | None) -> list[str]:
    """The modes of a run: those that the user names, joined by commas, else all that can run here.

    UsageError if a mode does not exist, is not declared, or is named twice.
    """
    if words:
        modes = words.split(",")
        for mode in modes:
            target.check_mode(mode)
        if len(set(modes)) != len(modes):
            raise UsageError(f"--mode {words} names a mode twice; name each once")
        return modes
    here = installed_torch.version()
    modes = [mode for mode in target.modes if runs_on(target, mode, here)]
    if not modes:
        raise UsageError(
            f"target {target.name!r} has no mode that runs on torch {here}; install a build for "
            f"{', '.join(target.modes)}, or name a mode with --mode to see it refused"
        )
    return modes
