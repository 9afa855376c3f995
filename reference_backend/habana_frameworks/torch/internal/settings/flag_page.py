"""The page of the documentation about the environment flags.

``python -m habana_frameworks.torch.internal.settings.flag_page > docs/flags.md`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .flag_table import FLAGS, OBEYED


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Environment flags"
    yield ""
    yield (
        f"The device knows {len(FLAGS)} flags. Each is read once, checked, and shown by "
        "`habana_frameworks.torch.internal.bridge_config.get_<flag>()`; a text that its kind does not accept "
        f"is an error at import. {len(OBEYED)} of them change something on this device; all others are "
        "accepted, so that scripts that set them run."
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
        "Those without a reason are about the inside of a graph compiler, driver or allocator that this "
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
    print("\n".join(page()))
