"""The general snippet: a property's own check with all that it needs of the suite, as one script."""

from __future__ import annotations

import dataclasses
import re

from conformance.plan import needs
from conformance.reproduction.data import STANDINS, Data
from conformance.reproduction.literal import Writer, attributes_read
from conformance.reproduction.modules import Place, inlined
from conformance.reproduction.shaking import shaken
from conformance.reproduction.source import Collector
from conformance.reproduction.trial import Trial
from conformance.target.target import Target

_NAMES = {
    ("conformance.checking.recorder", "Recorder"): "Recorder",
    ("conformance.samples.operators", "samples_of"): "samples_of",
    ("conformance.samples.operators", "reference_samples_of"): "reference_samples_of",
    ("conformance.samples.modules", "module_samples"): "module_samples",
    ("conformance.samples.optimizers", "optimizer_samples"): "optimizer_samples",
    ("conformance.subjects.databases", "find"): "find",
    ("conformance.checking.tolerances", "rule"): "rule",
    ("conformance.torch_private", "preserved_rng"): "preserved_rng",
    ("conformance.torch_private", "seeded"): "seeded",
    ("conformance.device.process_state", "seed"): "seed_everything",
    ("conformance.oracle.operators", "_announce"): "announce",
    ("conformance.samples.extent", "limit"): "limit",
    ("conformance.properties.modes", "reasons"): "reasons",
    ("conformance.torch_private", "error_inputs"): "error_inputs",
    ("conformance.torch_private", "module_error_inputs"): "module_error_inputs",
    ("conformance.torch_private", "optimizer_error_inputs"): "optimizer_error_inputs",
    ("conformance.torch_private", "backward_dtypes"): "backward_dtypes",
    ("conformance.torch_private", "forward_dtypes"): "forward_dtypes",
    ("conformance.properties.operators.dtypes", "_first"): "first_samples",
    ("conformance.oracle.renewal", "_others"): "others",
    ("conformance.behaviours.observation", "numpy"): "numpy",
    ("conformance.torch_private", "composite_checks"): "composite_checks",
    ("conformance.torch_private", "op_db"): "op_db",
}
#: Definitions of the suite with the short ones that stand in for them.
REPLACED: dict[Place, Place] = {place: (STANDINS, name) for place, name in _NAMES.items()}

_HEAD = '''\
"""{title}

{statement}

{advice}
"""

from __future__ import annotations

{imports}
'''

_BODY = """\
DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else {device!r})


{code}


{data}

{main}
"""


def import_lines(collector: Collector, target: Target, text: str) -> str:
    """The imports of a script: those that its code uses, and the backend's after torch."""
    lines = {f"import {name}" for name in ("base64", "math", "zlib", "contextlib", "io")} | collector.imports
    used = {"import sys", "import torch"}
    for line in lines - {"from __future__ import annotations"}:
        name = line.split(" as ")[-1].split("import ")[-1].strip().split(".")[0]
        if re.search(rf"\b{name}\b", text):
            used.add(line)
    standard = sorted(one for one in used if not re.match(r"(import|from) torch\b", one))
    torchs = sorted(used - set(standard), key=lambda one: (one != "import torch", one))
    # The backend registers its device with torch, so that it comes after it.
    return "\n".join([*standard, *torchs, *([f"import {target.module}"] if target.module else [])])


@dataclasses.dataclass
class Written:
    """A snippet: its text, and in words what is in it."""

    text: str
    form: str


def write(trial: Trial, *, title: str, advice: str, only: int | None = None, rules: bool = True) -> Written:
    """The script of a result, for the sets of samples that are in force; ``only`` restricts error inputs.

    Without ``rules`` the check is not run to see which tolerances it asks for: it gets those of the subject.

    Raises :class:`~conformance.reproduction.modules.Unwritable` where something of it has no source text.
    """
    return _Script(trial, only, rules).write(title, advice)


class _Script:
    def __init__(self, trial: Trial, only: int | None, rules: bool) -> None:
        self.trial = trial
        self.data = Data(trial, only, rules)
        roots = {one.split(".")[0] for one in (trial.entry.check.__module__, type(trial.subject).__module__)}
        self.collector = Collector(
            REPLACED, self.data.asked, lambda module: inlined(module) or module.split(".")[0] in roots
        )
        self.collector.call((STANDINS, "SUBJECT"), "SUBJECT")
        self.writer = Writer(self.collector)
        self.data.collector, self.data.writer = self.collector, self.writer

    def write(self, title: str, advice: str) -> Written:
        target, entry = self.trial.target, self.trial.entry
        lines = self._main()
        done: set[Place] = set()
        data: list[str] = []
        while set(self.collector.wanted) - done:
            for place in [one for one in self.collector.wanted if one not in done]:
                done.add(place)
                data.append(f"{self.collector.wanted[place]} = {self.data.asked[place]()}")
        subject = self._subject(data)
        statements = "\n".join(self.writer.statements)
        main = ["SUBJECT = " + subject, *lines]
        code = self.collector.text()
        body = shaken(
            _BODY.format(
                device=target.device,
                code=code,
                data="\n".join([statements, *data]).strip()
                or "# No samples: the check makes what it needs itself.",
                main="\n".join(main),
            )
        )
        head = _HEAD.format(
            title=title,
            statement=entry.statement,
            advice=advice,
            imports=import_lines(self.collector, target, body),
        )
        return Written(
            self.collector.named(f"{head}\n{body}"),
            f"the check of property {entry.name!r} itself, with all that it needs",
        )

    def _main(self) -> list[str]:
        """The statements that run the check; collects its code."""
        trial, require = self.trial, self.collector.require
        seed = trial.run_seed
        recorder = require("conformance.checking.recorder", "Recorder")
        identity = (
            f"{require('conformance.model.verdicts', 'ResultId')}"
            f"({require('conformance.model.verdicts', 'CaseId')}"
            f"({trial.id.case.property!r}, {trial.id.case.subject!r}), {trial.id.dtype!r})"
        )
        made = f"{recorder}({identity}, seed={seed}, about_emptiness={trial.entry.about_emptiness})"
        check = self._check()
        lines = [
            f"target = {self._target()}",
            f"recorder = {made}",
        ]
        kind = require("conformance.model.verdicts", "Kind")
        seeded = f"{require('conformance.device.process_state', 'seed')}({seed}, target)"
        if trial.target.rehearses:
            lines += [
                "# The device learns each call the first time; what counts is the second.",
                "with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):",
                f"    {seeded}",
                f"    {check.replace('recorder', made)}",
                "    target.mark_step()",
                "    target.synchronize()",
            ]
        lacking = needs.lacking(trial.target, trial.entry, trial.subject.kind, trial.subject.name)
        if lacking:
            lines.append(f"recorder.lacking = {lacking!r}")
        lines += [
            seeded,
            check,
            "try:",
            "    target.synchronize()",
            "except Exception as error:",
            f"    recorder.fail({kind}.EXCEPTION, f'synchronising raised {{error!r}}')",
            "recorder.finish()",
        ]
        return lines

    def _check(self) -> str:
        function = self.trial.entry.check
        if self.trial.subject.kind == "api":
            from conformance.behaviours.behaviour import BEHAVIOURS

            found = BEHAVIOURS[self.trial.entry.name]
            program = self.writer.write(found.program)
            made = f"{self.collector.require('conformance.behaviours.behaviour', 'Behaviour')}"
            made += f"({found.name!r}, {found.area!r}, {program}, ())"
            check = self.collector.require("conformance.behaviours.behaviour", "check")
            return f"{check}({made}, target, recorder)"
        return f"{self.writer.write(function)}(target, SUBJECT, recorder)"

    def _target(self) -> str:
        target = self.trial.target
        made = self.collector.require("conformance.target.target", "Target")
        words = []
        for field in dataclasses.fields(Target):
            value = getattr(target, field.name)
            default = (
                field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
            )
            if field.name == "device":
                words.append("device=str(DEVICE)")
            elif field.name == "module":
                words.append("module=None")
            elif value != default:
                words.append(f"{field.name}={self.writer.write(value)}")
        return f"{made}({', '.join(words)})"

    def _subject(self, data: list[str]) -> str:
        subject = self.trial.subject
        made = self.collector.require("conformance.subjects.databases", "Subject")
        info = "None"
        if getattr(subject, "info", None) is not None:
            # Twice: what the subject's own functions read of it is known only when they are written.
            for _ in range(2):
                text = "\n".join([self.collector.text(), *data, *self.writer.statements])
                self.writer.attributes = attributes_read(text) - {"info", "kind"}
                info = self.writer.record(subject.info)
        return f"{made}({subject.kind!r}, {subject.name!r}, {info})"
