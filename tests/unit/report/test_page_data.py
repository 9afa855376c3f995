"""``report.page_data`` converts results into the compact JSON data of the report page."""

from __future__ import annotations

import json

from expecttest import assert_expected_inline

from conformance.report.page_data import page_data
from conformance.results import document
from tests.support.sample_legs import leg, results_with_three_verdicts


def test_the_data_of_a_report_with_three_results() -> None:
    leg_data = page_data(results_with_three_verdicts())["legs"][0]
    compact = {
        key: leg_data[key] for key in ("command", "subjects", "properties", "dtypes", "cases", "details")
    }
    assert_expected_inline(
        json.dumps(compact, indent=1, ensure_ascii=True),
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


def test_a_property_has_the_url_of_its_documentation() -> None:
    documented_leg = leg("eager", "pass")
    documented_leg["cases"] = {"out/add": {"dtypes": ["float32"]}, "p/s0": {"dtypes": ["d"]}}
    data = page_data(document.results_document([documented_leg]))
    assert data["documentation"] == {"out": "https://docs.pytorch.org/docs/stable/notes/out.html"}
    assert list(data["promises"]) == ["out"]
