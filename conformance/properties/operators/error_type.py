"""Property: invalid arguments raise the type of error that torch's database names."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.calls import one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.properties.operators import _error_inputs
from conformance.properties.shared.basis import basis_of_error
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtype word ``any`` if torch's database has usable error inputs for the operator."""
    return [ANY_DTYPE] if _error_inputs.error_input_count(subject.name) else []


@register(
    "error-type",
    subject_kind="operator",
    statement="Wrong arguments raise the type of error that torch's database names.",
    documentation="torch.html",
    basis="parity",
    ground="Mostly no page names the error of wrong arguments; the types come from torch's test database",
    level="core",
    applies=dtypes_to_check,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on each error input and compare the error's type with the database's type."""
    for index, arguments, item, outcome in _error_inputs.error_input_outcomes(target, subject, recorder):
        expected_type = item.error_type
        if outcome.error is None:
            message = f"({arguments}) is accepted; expected {expected_type.__name__}."
        else:
            message = f"({arguments}) raises {one_line(outcome.error)}; expected {expected_type.__name__}."
        is_expected = isinstance(outcome.error, expected_type)
        basis = basis_of_error(item.error_regex or "") if outcome.error is None else Basis.PARITY
        fact(recorder, is_expected, Kind.ERROR_TYPE, message, sample=index, basis=basis)
