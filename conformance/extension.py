"""The public API of the suite for ``--extra`` modules, which add properties and subjects.

Every process of a run imports the extra modules. An extra module can add

* a new subject kind (:func:`add_subjects`) with its properties (:func:`register`), and the line
  ``test_NAME = cases("KIND")``, which creates their pytest items;
* properties of an existing subject kind (:func:`register`, for example with ``subject_kind="operator"``);
* behaviours of an API area (:func:`behaviour`).

A check reports deviations to its :class:`Recorder` and does not use ``assert``. An exception that leaves a
check is a fault of the module and becomes the verdict ``error``. docs/examples/scaled_swish.py is an example,
which docs/extending.md explains. Names that are not in this module can change with any release.
"""

from conformance.behaviours import behaviour as behaviours
from conformance.behaviours.lab import Lab
from conformance.errors import UsageError
from conformance.framework import calls, compare
from conformance.framework.calls import CallOutcome, attempt, attempt_on
from conformance.framework.compare import fact
from conformance.framework.property import Property, register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance, unit_of
from conformance.model.deprecation import accept_old_keywords, getattr_for_renamed_attributes
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

behaviour = accept_old_keywords(sees="must_detect")(behaviours.behaviour)
compare_metadata = accept_old_keywords(what="label")(compare.compare_metadata)
compare_values = accept_old_keywords(what="label", spread="sensitivity")(compare.compare_values)
report_error = accept_old_keywords(what="label")(calls.report_error)

#: ``Outcome`` is the old name of ``CallOutcome``. It stays for one release.
__getattr__ = getattr_for_renamed_attributes(__name__, {"Outcome": "CallOutcome"})
