"""The public face of the suite for ``--extra`` modules: properties and subjects of a vendor's own.

An extra module is imported by every process of a run. It may add

* a kind of subjects (:func:`add_subjects`) with properties of its own (:func:`register`), and one line
  ``test_NAME = cases("KIND")``, which makes pytest items of them;
* properties of a kind that the suite has (:func:`register` with ``subject_kind="operator"``, for example);
* behaviours of an area of torch's API (:func:`behaviour`).

A check reports to its :class:`Recorder` and never asserts: an exception that leaves it is a fault of the
module and becomes the verdict ``error``. A worked example is docs/examples/scaled_swish.py, explained in
docs/extending.md. Names outside of this module may change with any release.
"""

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.errors import UsageError
from conformance.framework import calls, compare
from conformance.framework.calls import CallOutcome, attempt, attempt_on
from conformance.framework.compare import fact
from conformance.framework.property import Property, register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance, unit_of
from conformance.model.deprecation import renamed, renamed_keywords
from conformance.model.verdicts import Kind, ResultId, Verdict
from conformance.model.vocabulary import ANY_DTYPE, CALLS, CAPABILITIES, LEVELS, MODES
from conformance.pytest_modules import Cases, cases
from conformance.subjects.catalogue import Subject, add_subjects
from conformance.target.target import Target

__all__ = [
    "ANY_DTYPE",
    "CALLS",
    "CAPABILITIES",
    "EXACT",
    "LEVELS",
    "MODES",
    "CallOutcome",
    "Cases",
    "Kind",
    "Lab",
    "Property",
    "Recorder",
    "ResultId",
    "Subject",
    "Target",
    "Tolerance",
    "UsageError",
    "Verdict",
    "add_subjects",
    "attempt",
    "attempt_on",
    "behaviour",
    "cases",
    "compare_metadata",
    "compare_values",
    "fact",
    "register",
    "report_error",
    "unit_of",
]

compare_metadata = renamed_keywords(what="label")(compare.compare_metadata)
compare_values = renamed_keywords(what="label")(compare.compare_values)
report_error = renamed_keywords(what="label")(calls.report_error)

#: ``Outcome`` is the old name of ``CallOutcome``, kept for one release.
__getattr__ = renamed(__name__, {"Outcome": "CallOutcome"})
