"""Probe a device and draft a target file."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from conformance.device.bring_up import bring_up
from conformance.doctor import capability_trials, impact, trial_process
from conformance.doctor.registration_checks import Fact
from conformance.model.vocabulary import CAPABILITIES
from conformance.target.file import CRASHES, DTYPES
from conformance.target.target import Target

#: The dtypes of a draft for a device that cannot fill a tensor yet.
_BEGINNING = ("float32", "int64", "bool")
#: Capabilities that no trial covers and an early backend cannot declare, with the reason.
_UNTRIED = {
    "memory_limit": "it would take all of the memory",
    "multiprocessing": "it takes a second process",
    "dataloader": "it takes a second process",
    "fork": "a forked child may hang",
    "deterministic": "it takes many runs",
    "profiler": "it takes a trace",
    "memory_history": "it takes a trace",
    "custom_operators": "it takes an operator of your own",
    "compile": "it takes a compiler",
    "export": "it takes a compiler",
    "distributed": "it takes several processes",
}


@dataclasses.dataclass(frozen=True)
class Draft:
    """The text of a target file, and the capabilities whose trials failed, in the order of a bring-up."""

    text: str
    missing: tuple[Fact, ...]


def draft_target(device: str, module: str | None) -> Draft:
    """Return a draft of a target file: dtypes that the device can fill, and capabilities whose trials
    succeed.

    The draft lists each failed capability with its error, the results that it blocks, and its location in
    openreg. Raise UsageError if the module cannot be imported or its device is not the accelerator.
    """
    target = Target(
        name=device, module=module, device=device, dtypes=frozenset(DTYPES), capabilities={}, hooks={}
    )
    bring_up(target)
    head = [
        "# Written by 'conformance targets --new'. Dtypes were copied and filled, capabilities tried once.",
        "# The error of each failed capability is in a comment. Capabilities are in the order of a bring-up.",
        "# Review the file: remove capabilities that the backend does not support, and add missing ones.",
        "schema = 1",
        f'name = "{device.replace(":", "-")}"',
    ]
    if module is not None:
        head.append(f'module = "{module}"')
    head += [f'device = "{device}"', 'modes = ["eager"]', 'precision = "ieee"']
    requested = [
        *(f"dtype:{name}" for name in DTYPES),
        *(f"capability:{capability}" for capability in capability_trials.trial_names()),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "draft.toml"
        draft.write_text("\n".join(head) + "\n")
        outcomes = trial_process.run(draft, "eager", requested)
    dtypes = [name for name in DTYPES if outcomes[f"dtype:{name}"].ok]
    note = "" if dtypes else "  # nothing can be filled yet; these are what a first level asks for"
    lines = [*head, f"dtypes = [{note}"]
    crashing = {
        capability
        for capability in capability_trials.trial_names()
        if "killed by signal" in outcomes[f"capability:{capability}"].text
    }
    comment = "  # its conjugates and negatives end the process" if "conj_neg_views" in crashing else ""
    lines += [
        f'    "{name}",{comment if name.startswith("complex") else ""}' for name in dtypes or _BEGINNING
    ]
    lines += ["]", "", "[capabilities]"]
    missing = []
    for capability in capability_trials.trial_names():
        outcome = outcomes[f"capability:{capability}"]
        if not outcome.ok:
            fact = impact.with_impact(Fact(capability, False, _first_sentence(outcome.text)), target, "core")
            missing.append(fact)
            lines.append(f"# {CAPABILITIES[capability]}: {fact.text}")
            lines += [f"#   {fact.impact}"] if fact.impact else []
            lines.append(f"{capability} = " + (f'"{CRASHES}"' if capability in crashing else "false"))
    lines += ["", "# Not tried. Declare true if the backend supports it."]
    lines += [
        f"{capability} = false  # {CAPABILITIES[capability]} ({reason})"
        for capability, reason in _UNTRIED.items()
    ]
    return Draft("\n".join(lines) + "\n", tuple(missing))


def _first_sentence(text: str) -> str:
    """Return the first sentence of a message on one line, without control characters."""
    line = " ".join(text.split()).split(". ")[0]
    return "".join(sign for sign in line if sign.isprintable())[:160]
