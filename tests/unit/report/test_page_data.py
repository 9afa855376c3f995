"""The data of the report page."""

from __future__ import annotations

import json

from expecttest import assert_expected_inline

from conformance.report.page_data import page_data
from conformance.results import document
from tests.support.sample_legs import leg, three_results


def test_the_report_carries_compact_data() -> None:
    found = page_data(three_results())["legs"][0]
    kept = {key: found[key] for key in ("command", "subjects", "properties", "dtypes", "cases", "details")}
    assert_expected_inline(
        json.dumps(kept, indent=1, ensure_ascii=True),
        """\
{
 "command": "conformance repro RESULT --target cpu --mode eager",
 "subjects": [
  "s0",
  "s1",
  "s2"
 ],
 "properties": [
  "p"
 ],
 "dtypes": [
  "d"
 ],
 "cases": [
  [
   0,
   0,
   [
    0
   ],
   ".",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ],
   8
  ],
  [
   1,
   0,
   [
    0
   ],
   "F",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ],
   8
  ],
  [
   2,
   0,
   [
    0
   ],
   "u",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ],
   8
  ]
 ],
 "details": {
  "p/s1@d": {
   "failures": [
    {
     "kind": "value",
     "message": "</script><b>&\\u2028 \\u0000 differs"
    }
   ]
  }
 }
}""",
    )


def test_a_property_has_the_page_of_its_documentation() -> None:
    made = leg("eager", "pass")
    made["cases"] = {"out/add": {"dtypes": ["float32"]}, "p/s0": {"dtypes": ["d"]}}
    found = page_data(document.document([made]))
    assert found["documentation"] == {"out": "https://docs.pytorch.org/docs/stable/notes/out.html"}
    assert list(found["promises"]) == ["out"]
