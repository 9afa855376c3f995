"""Probing a device for the first draft of a target file."""

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

#: The dtypes for a device that cannot fill a tensor of any dtype yet.
_BEGINNING = ("float32", "int64", "bool")
#: Capabilities that no trial covers and an early backend cannot promise, with the reason.
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
    """The text of a target file, and the capabilities that did not answer, in the order of a bring-up."""

    text: str
    missing: tuple[Fact, ...]


def draft_target(device: str, module: str | None) -> Draft:
    """Draft a target file: dtypes that the device can fill, capabilities that answer.

    Beside each that does not answer stand its error, the results that it blocks, and openreg's place for it.
    UsageError if the module cannot be imported or its device is not the accelerator.
    """
    target = Target(
        name=device, module=module, device=device, dtypes=frozenset(DTYPES), capabilities={}, hooks={}
    )
    bring_up(target)
    head = [
        "# Written by 'conformance targets --new'. Dtypes were copied and filled, capabilities tried once;",
        "# the error is beside each that is declared false, in the order in which a bring-up comes to them.",
        "# Remove what is not promised, add what is.",
        "schema = 1",
        f'name = "{device.replace(":", "-")}"',
    ]
    if module is not None:
        head.append(f'module = "{module}"')
    head += [f'device = "{device}"', 'modes = ["eager"]', 'precision = "ieee"']
    requested = [
        *(f"dtype:{name}" for name in DTYPES),
        *(f"capability:{word}" for word in capability_trials.words()),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "draft.toml"
        draft.write_text("\n".join(head) + "\n")
        outcomes = trial_process.run(draft, "eager", requested)
    dtypes = [name for name in DTYPES if outcomes[f"dtype:{name}"].ok]
    note = "" if dtypes else "  # nothing can be filled yet; these are what a first level asks for"
    lines = [*head, f"dtypes = [{note}"]
    deadly = {
        word
        for word in capability_trials.words()
        if "killed by signal" in outcomes[f"capability:{word}"].text
    }
    beside = "  # its conjugates and negatives end the process" if "conj_neg_views" in deadly else ""
    lines += [f'    "{name}",{beside if name.startswith("complex") else ""}' for name in dtypes or _BEGINNING]
    lines += ["]", "", "[capabilities]"]
    missing = []
    for word in capability_trials.words():
        outcome = outcomes[f"capability:{word}"]
        if not outcome.ok:
            fact = impact.with_stakes(Fact(word, False, _short(outcome.text)), target, "core")
            missing.append(fact)
            lines.append(f"# {CAPABILITIES[word]}: {fact.text}")
            lines += [f"#   {fact.stakes}"] if fact.stakes else []
            lines.append(f"{word} = " + (f'"{CRASHES}"' if word in deadly else "false"))
    lines += ["", "# Not tried; say true if the backend promises it."]
    lines += [f"{word} = false  # {CAPABILITIES[word]} ({why})" for word, why in _UNTRIED.items()]
    return Draft("\n".join(lines) + "\n", tuple(missing))


def _short(text: str) -> str:
    """Return the first sentence of a message on one line, without control characters."""
    line = " ".join(text.split()).split(". ")[0]
    return "".join(sign for sign in line if sign.isprintable())[:160]
