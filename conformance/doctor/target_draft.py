"""Probe a device and draft a target file."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from conformance import torch_testing_internals
from conformance.device.bring_up import bring_up, import_backend
from conformance.doctor import (
    capability_trials,
    missing_feature_impact,
    precision_trials,
    trial_process,
)
from conformance.doctor.registration_checks import Fact, new_tensors_lack_index
from conformance.framework.calls import attempt
from conformance.model.vocabulary import CAPABILITIES
from conformance.target.file import CRASHES, DTYPES
from conformance.target.target import Target

#: The dtypes of a draft if the device cannot fill a tensor of any dtype yet.
_BEGINNING = ("float32", "int64", "bool")
#: The capabilities without a trial, each with the reason. A draft declares them false.
_UNTRIED = {
    "memory_limit": "a trial would use all of the memory",
    "multiprocessing": "a trial needs a second process",
    "dataloader": "a trial needs a second process",
    "fork": "a forked child may hang",
    "deterministic": "a trial needs many runs",
    "profiler": "a trial needs a trace",
    "memory_history": "a trial needs a trace",
    "custom_operators": "a trial needs an operator of your own",
    "compile": "a trial needs a compiler",
    "export": "a trial needs a compiler",
    "distributed": "a trial needs several processes",
}


@dataclasses.dataclass(frozen=True)
class TargetDraft:
    """The text of a target file, and facts about the capabilities whose trials failed, in the order in which
    a new backend needs them.
    """

    text: str
    missing: tuple[Fact, ...]


def draft_target(device: str, module: str | None) -> TargetDraft:
    """Return a draft of a target file: the dtypes that the device can fill, and the result of each
    capability's trial.

    For each capability whose trial failed, the draft has the error, the number of results that need the
    capability, and the file of openreg that implements it. Raise UsageError if the module cannot be imported
    or its device is not the accelerator.
    """
    target = Target(
        name=device, module=module, device=device, dtypes=frozenset(DTYPES), capabilities={}, hooks={}
    )
    import_backend(target)
    if not _is_accelerator(device) and _can_store_numbers(device):
        target = dataclasses.replace(target, capabilities={"accelerator": False})
    bring_up(target)
    head = [
        "# Written by 'conformance targets --new'. Dtypes were copied and filled, capabilities tried once.",
        "# A comment has the error of each failed capability. The most needed capabilities come first.",
        "# Review the file: remove capabilities that the backend does not support, and add missing ones.",
        "schema = 1",
        f'name = "{device.replace(":", "-")}"',
    ]
    if module is not None:
        head.append(f'module = "{module}"')
    if new_tensors_lack_index(device):
        head.append(f"# torch.empty(1, device={device!r}).device has no index, so the index is given here.")
        device = f"{device}:0"
    head += [f'device = "{device}"', 'modes = ["eager"]']
    requested = [
        *(f"precision:{name}" for name in precision_trials.CLASSES),
        *(f"dtype:{name}" for name in DTYPES),
        *(f"capability:{capability}" for capability in capability_trials.trial_names()),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "draft.toml"
        lacking = (
            []
            if target.is_known_to_torch_accelerator or target.is_cpu
            else ["[capabilities]", "accelerator = false"]
        )
        draft.write_text("\n".join([*head, *lacking]) + "\n")
        outcomes = trial_process.run_trials(draft, "eager", requested)
    dtypes = [name for name in DTYPES if outcomes[f"dtype:{name}"].ok]
    note = "" if dtypes else "  # no tensor can be filled yet; a first level requires these dtypes"
    deviations = {
        name: outcomes[f"precision:{name}"].text
        for name in precision_trials.CLASSES
        if not outcomes[f"precision:{name}"].ok
    }
    lines = [*head, *_precision_lines(deviations), f"dtypes = [{note}"]
    crashing = {
        capability
        for capability in capability_trials.trial_names()
        if "killed by signal" in outcomes[f"capability:{capability}"].text
    }
    comment = "  # conjugate and negative views crash the process" if "conj_neg_views" in crashing else ""
    lines += [
        f'    "{name}",{comment if name.startswith("complex") else ""}' for name in dtypes or _BEGINNING
    ]
    lines += ["]", "", "[capabilities]"]
    missing = []
    untried = dict(_UNTRIED)
    for capability in capability_trials.trial_names():
        outcome = outcomes[f"capability:{capability}"]
        if outcome.broken:
            untried[capability] = f"{_first_sentence(outcome.text)}; please report this defect of the suite"
        elif not outcome.ok:
            fact = missing_feature_impact.fact_with_impact(
                Fact(capability, False, _first_sentence(outcome.text)), target, "core"
            )
            missing.append(fact)
            lines.append(f"# {CAPABILITIES[capability]}: {fact.text}")
            lines += [f"#   {fact.impact}"] if fact.impact else []
            lines.append(f"{capability} = " + (f'"{CRASHES}"' if capability in crashing else "false"))
    lines += ["", "# Not tried. Declare true if the backend supports it."]
    lines += [
        f"{capability} = false  # {CAPABILITIES[capability]} ({reason})"
        for capability, reason in untried.items()
    ]
    return TargetDraft("\n".join(lines) + "\n", tuple(missing))


def _precision_lines(deviations: Mapping[str, str]) -> Iterator[str]:
    """Yield the precision class of a draft, and a comment with each deviation from IEEE arithmetic."""
    if not deviations:
        yield 'precision = "ieee"'
        return
    for name, text in deviations.items():
        yield f"# {name}: {text}"
    if len(deviations) > 1:
        yield "# A target file can declare only one precision class. Results that need the other class fail."
    yield f'precision = "{next(iter(deviations))}"'


def _is_accelerator(device: str) -> bool:
    accelerator = torch_testing_internals.current_accelerator()
    return accelerator is not None and accelerator.type == torch.device(device).type


def _can_store_numbers(device: str) -> bool:
    """Return whether numbers can be copied to a device and back, even without ``torch.accelerator``."""
    copied = attempt(lambda: torch.ones(2).to(device).cpu().tolist())
    return bool(copied.value == [1.0, 1.0])


def _first_sentence(text: str) -> str:
    """Return the first sentence of a message on one line, without control characters."""
    line = " ".join(text.split()).split(". ")[0]
    return "".join(sign for sign in line if sign.isprintable())[:160]
