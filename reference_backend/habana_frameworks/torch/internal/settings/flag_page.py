"""Generate ``docs/flags.md``, the documentation of the environment flags.

To write the file, run ``python -m habana_frameworks.torch.internal.settings.flag_page > docs/flags.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from .flag_table import FLAGS, OBEYED


def page_lines() -> Iterator[str]:
    """Yield the lines of ``docs/flags.md``."""
    yield "# Environment flags"
    yield ""
    yield (
        f"The device accepts {len(FLAGS)} flags. Each flag is read once and checked: a text that is not of "
        "the flag's kind is an error at import. "
        f"`habana_frameworks.torch.internal.bridge_config.get_<flag>()` returns the value. {len(OBEYED)} "
        "flags have an effect on this device. All others are accepted so that scripts that set them run."
    )
    yield ""
    yield "## Flags with an effect"
    yield ""
    yield "| flag | kind | default | settable | effect |"
    yield "|---|---|---|---|---|"
    for name, flag in sorted(OBEYED.items()):
        settable = "yes" if flag.settable else "no"
        yield f"| `{name}` | {flag.kind} | {flag.default!r} | {settable} | {flag.effect} |"
    yield ""
    yield "## Flags without an effect"
    yield ""
    yield (
        "Flags without a reason configure internals of a graph compiler, driver or allocator that this "
        "device does not have."
    )
    yield ""
    yield "| flag | kind | default | settable | why |"
    yield "|---|---|---|---|---|"
    for name, flag in sorted(FLAGS.items()):
        if name not in OBEYED:
            settable = "yes" if flag.settable else "no"
            yield f"| `{name}` | {flag.kind} | {flag.default!r} | {settable} | {flag.why} |"


if __name__ == "__main__":
    print("\n".join(page_lines()))
