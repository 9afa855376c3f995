"""``upstream.export_dtypes`` exports the dtypes that operators refuse. Only a refused call removes a dtype
from upstream's list.
"""

from __future__ import annotations

import runpy

import pytest
import torch

from conformance.torch_testing_internals import op_db
from conformance.upstream import export_dtypes, exported_deviations
from conformance.upstream.matching_tests import Databases
from tests.support.sample_deviating_leg import leg, row

KNOWN = Databases({"add": "BinaryUfuncInfo", "rand_like": "OpInfo"}, {"nn.Linear": False}, frozenset())


def exported_refusals(*rows):
    pairs, unexported = export_dtypes.refused_dtypes(leg(*rows), KNOWN)
    return pairs, {each.id: each.reason for each in unexported}


@pytest.mark.parametrize(
    "refused", [row("value/add@int8", "unsupported"), row("value/add@int8", "xfail", "refused")]
)
def test_a_refused_call_removes_the_dtype(refused):
    assert exported_refusals(refused, row("value/add@float32", "pass")) == ([("add", "int8")], {})


def test_other_refusals_do_not_remove_a_dtype_whose_call_passed():
    refused = row("value/add@int8", "unsupported")
    assert exported_refusals(refused, row("fake/add@int8", "pass")) == ([("add", "int8")], {})
    works = row("value/add@int8", "pass")
    pairs, unexported = exported_refusals(works, row("out/add@int8", "unsupported"))
    assert pairs == [] and unexported == {"out/add@int8": "a list of dtypes cannot express this deviation"}


def test_without_a_call_nothing_is_known_of_the_dtype():
    assert exported_refusals(row("random/rand_like@int8", "unsupported"))[0] == [("rand_like", "int8")]
    assert (
        exported_refusals(row("out/add@int8", "unsupported"), row("views/add@int8", "unsupported"))[0] == []
    )


@pytest.mark.parametrize(
    "found",
    [
        row("value/add@int8", "fail", "value"),
        row("value/add@int8", "xfail", "value", "refused"),
        row("value/add@int8", "crash", "crash"),
        row("forward/nn.Linear@float32", "unsupported"),
        row("error-type/add@any", "unsupported"),
        row("value/add@int8", "flaky"),
    ],
)
def test_results_that_a_list_of_dtypes_cannot_express_are_reported(found):
    pairs, unexported = exported_refusals(found)
    assert pairs == [] and list(unexported) == [found["id"]]


def test_the_exported_file_removes_the_dtype_for_the_device_only(tmp_path):
    (info,) = (info for info in op_db() if info.full_name == "add")
    before = dict(info.dtypesIf)
    exported_leg = leg(
        row("value/add@int8", "unsupported"), row("value/add@float16", "unsupported"), device="mps"
    )
    deviations = exported_deviations.export_leg(exported_leg, Databases.load())
    pairs, unexported = export_dtypes.refused_dtypes(exported_leg, Databases.load())
    (tmp_path / "dtypes.py").write_text(export_dtypes.dtypes_file(deviations, pairs, unexported, "out"))
    try:
        had = set(info.supported_dtypes("mps"))
        runpy.run_path(str(tmp_path / "dtypes.py"))
        assert had - set(info.supported_dtypes("mps")) == {torch.int8, torch.float16} & had != set()
        assert torch.int8 in info.supported_dtypes("cpu")
    finally:
        info.dtypesIf.clear()
        info.dtypesIf.update(before)
