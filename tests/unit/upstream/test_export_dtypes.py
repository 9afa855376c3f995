"""Dtypes that operators lack: only a call that is refused takes one from upstream's list."""

from __future__ import annotations

import runpy

import pytest
import torch

from conformance.torch_testing_internals import op_db
from conformance.upstream import export_dtypes, exported_deviations
from conformance.upstream.matching_tests import Databases
from tests.support.sample_deviating_leg import leg, row

KNOWN = Databases({"add": "BinaryUfuncInfo", "rand_like": "OpInfo"}, {"nn.Linear": False}, frozenset())


def lacking(*rows):
    pairs, left = export_dtypes.refused_dtypes(leg(*rows), KNOWN)
    return pairs, {each.id: each.reason for each in left}


@pytest.mark.parametrize(
    "refused", [row("value/add@int8", "unsupported"), row("value/add@int8", "xfail", "refused")]
)
def test_a_refused_call_takes_the_dtype(refused):
    assert lacking(refused, row("value/add@float32", "pass")) == ([("add", "int8")], {})


def test_what_else_is_said_of_the_dtype_does_not_count_beside_the_call():
    refused = row("value/add@int8", "unsupported")
    assert lacking(refused, row("fake/add@int8", "pass")) == ([("add", "int8")], {})
    works = row("value/add@int8", "pass")
    pairs, left = lacking(works, row("out/add@int8", "unsupported"))
    assert pairs == [] and left == {"out/add@int8": "a list of dtypes cannot say it"}


def test_without_a_call_nothing_is_known_of_the_dtype():
    assert lacking(row("random/rand_like@int8", "unsupported"))[0] == [("rand_like", "int8")]
    assert lacking(row("out/add@int8", "unsupported"), row("views/add@int8", "unsupported"))[0] == []


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
def test_what_a_list_cannot_say_is_named(found):
    pairs, left = lacking(found)
    assert pairs == [] and list(left) == [found["id"]]


def test_the_file_takes_it_for_the_device_alone(tmp_path):
    (info,) = (info for info in op_db() if info.full_name == "add")
    before = dict(info.dtypesIf)
    one = leg(row("value/add@int8", "unsupported"), row("value/add@float16", "unsupported"), device="mps")
    found = exported_deviations.export_leg(one, Databases.load())
    pairs, left = export_dtypes.refused_dtypes(one, Databases.load())
    (tmp_path / "dtypes.py").write_text(export_dtypes.dtypes_file(found, pairs, left, "out"))
    try:
        had = set(info.supported_dtypes("mps"))
        runpy.run_path(str(tmp_path / "dtypes.py"))
        assert had - set(info.supported_dtypes("mps")) == {torch.int8, torch.float16} & had != set()
        assert torch.int8 in info.supported_dtypes("cpu")
    finally:
        info.dtypesIf.clear()
        info.dtypesIf.update(before)
