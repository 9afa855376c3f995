"""Property: the errors for invalid arguments have the messages of torch's database."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.framework.calls import one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.properties.operators import _error_inputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtype word ``any`` if torch's database has usable error inputs for the operator."""
    return [ANY_DTYPE] if _error_inputs.error_input_count(subject.name) else []


@register(
    "error-message",
    subject_kind="operator",
    statement="The messages of errors for wrong arguments match the patterns of torch's database.",
    documentation="torch.html",
    basis="parity",
    ground="No page fixes the text of errors; the patterns come from torch's test database",
    level="full",
    applies=dtypes_to_check,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on each error input and match the message with the database's pattern."""
    for index, arguments, item, outcome in _error_inputs.error_input_outcomes(target, subject, recorder):
        if outcome.error is None:
            fact(
                recorder,
                False,
                Kind.MESSAGE,
                f"({arguments}) is accepted: the error message is missing.",
                sample=index,
            )
            continue
        pattern = item.error_regex
        message = f"({arguments}) raises {one_line(outcome.error)}; expected a message matching {pattern!r}."
        fact(recorder, bool(re.search(pattern, str(outcome.error))), Kind.MESSAGE, message, sample=index)
