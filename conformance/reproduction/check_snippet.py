"""Write the snippet of a whole check: the check of the property and all suite code that it needs, in one
script.
"""

from __future__ import annotations

import ast
import inspect

from conformance.plan import capability_requirements
from conformance.reproduction import script
from conformance.reproduction.inline_source import DefinitionCollector
from conformance.reproduction.literals import ExpressionWriter
from conformance.reproduction.module_ast import Place, is_inlined_module
from conformance.reproduction.rerun import RerunTrial
from conformance.reproduction.script import REPLACED, Script
from conformance.reproduction.snippet_data import STANDINS, SnippetData

#: The code of the first of the two runs of the check in mode ``lazy``.
_REHEARSAL = """\
# The device compiles each call in the first run; the second run is the check.
with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
    {seeded}
    {rehearsed}
    target.mark_step()
    target.synchronize()
"""

_MAIN = """\
SUBJECT = {subject}
target = {target}
recorder = {recorder}
{rehearsal}recorder.lacking = {lacking!r}
recorder.compares_strides = {strides}
{seeded}
{check}
try:
    target.synchronize()
except Exception as error:
    recorder.fail({kind}.EXCEPTION, f'synchronising raised {{error!r}}')
recorder.finish()"""


def write_check_snippet(
    trial: RerunTrial, *, advice: str, only: int | None = None, rules: bool = True
) -> Script:
    """Return a script that runs the whole check of a result on the current sample sets.

    ``only`` is the index of the only error input that the script uses.

    If ``rules`` is true, the check runs once to record the tolerance rules that it uses. Otherwise the script
    contains the rules of the subject.

    Raise :class:`~conformance.reproduction.module_ast.NotWritableAsSource` if some value has no source text.
    """
    return _CheckSnippet(trial, only, rules).write(advice)


class _CheckSnippet:
    def __init__(self, trial: RerunTrial, only: int | None, rules: bool) -> None:
        self.trial = trial
        self.values = SnippetData(trial, only, rules).values
        roots = {
            name.split(".")[0] for name in (trial.entry.check.__module__, type(trial.subject).__module__)
        }
        self.collector = DefinitionCollector(
            REPLACED, self.values, lambda module: is_inlined_module(module) or module.split(".")[0] in roots
        )
        self.collector.reserve_name((STANDINS, "SUBJECT"), "SUBJECT")
        self.writer = ExpressionWriter(self.collector)
        #: The assignments of the requested data. Each assignment follows the data that it needs.
        self.data: dict[Place, str] = {}

    def write(self, advice: str) -> Script:
        trial, require = self.trial, self.collector.add_definition
        identity = (
            f"{require('conformance.model.verdicts', 'ResultId')}"
            f"({require('conformance.model.verdicts', 'CaseId')}"
            f"({trial.id.case.property!r}, {trial.id.case.subject!r}), {trial.id.dtype!r})"
        )
        recorder = (
            f"{require('conformance.framework.recorder', 'Recorder')}"
            f"({identity}, seed={trial.run_seed}, about_emptiness={trial.entry.about_emptiness})"
        )
        check = self._check_call_text()
        seeded = f"{require('conformance.device.process_state', 'seed')}({trial.run_seed}, target)"
        rehearsal = _REHEARSAL.format(seeded=seeded, rehearsed=check.replace("recorder", recorder))
        target = self.writer.dataclass_expression(trial.target, device="str(DEVICE)", module="None")
        kind = require("conformance.model.verdicts", "Kind")
        self._write_data()
        main = _MAIN.format(
            subject=self._subject_text(),
            target=target,
            recorder=recorder,
            rehearsal=rehearsal if trial.target.rehearses else "",
            strides=trial.target.capable("strides"),
            lacking=capability_requirements.undeclared_capabilities(
                trial.target, trial.entry, trial.subject.kind, trial.subject.name
            ),
            seeded=seeded,
            check=check,
            kind=kind,
        )
        statements = [*self.writer.statements, *self.data.values()]
        form = f"the check of property {trial.entry.name!r} with all suite code that it needs"
        return script.write_script(trial, self.collector, statements, main, form=form, advice=advice)

    def _write_data(self) -> None:
        """Write the data that the code requests. The expressions of the data may request further data."""
        while waiting := [
            definition for definition in self.collector.requested_data if definition not in self.data
        ]:
            for definition in waiting:
                value = self.values[definition]()
                self.writer.register_shared_tensors(value)
                self.data[definition] = (
                    f"{self.collector.requested_data[definition]} = {self.writer.write(value)}"
                )

    def _check_call_text(self) -> str:
        """Return the text of the call that runs the check."""
        from conformance.behaviours.behaviour import BEHAVIOURS

        behaviour = BEHAVIOURS.get(self.trial.entry.name)
        if self.trial.subject.kind != "api" or behaviour is None:
            check = inspect.unwrap(self.trial.entry.check)  # the check without its CPU control
            return f"{self.writer.write(check)}(target, SUBJECT, recorder)"
        behaviour_text = self.writer.dataclass_expression(behaviour, must_detect="()")
        check = self.collector.add_definition("conformance.behaviours.behaviour", "check_behaviour")
        return f"{check}({behaviour_text}, target, recorder)"

    def _subject_text(self) -> str:
        """Return the expression of the subject. Its ``info`` has only attributes that the code reads."""
        subject, info = self.trial.subject, "None"
        if getattr(subject, "info", None) is not None:
            # The first iteration writes the functions of the subject. The second iteration adds the
            # attributes that these functions read.
            for _ in range(2):
                text = [self.collector.definitions_text(), *self.data.values(), *self.writer.statements]
                self.writer.attributes = _attributes_read("\n".join(text)) - {"info", "kind"}
                info = self.writer.plain_object_expression(subject.info, self.writer.attributes)
            self.writer.attributes = None
        subject_class = self.collector.add_definition("conformance.subjects.torch_databases", "Subject")
        return f"{subject_class}({subject.kind!r}, {subject.name!r}, {info})"


def _attributes_read(text: str) -> set[str]:
    """Return the attribute names that the code of a source text may read.

    The names are the attributes in the text and, because of ``getattr``, all strings that are identifiers.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)
    return names
