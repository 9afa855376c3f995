"""``expectations.result_id_index`` suggests similar names for an unknown name."""

from __future__ import annotations

from conformance.expectations.result_id_index import ResultIdIndex


def test_similar_names_of_an_unknown_name() -> None:
    index = ResultIdIndex(
        ["value/add@float32", "value/mul@float32", "out/add@float32", "compile_value/add@float32"]
    )
    assert index.nearest_ids("value/ad@float32") == ["value/add@float32"]
    assert index.nearest_ids("valu/add@*") == ["value/add@*"]
    assert index.nearest_ids("out/mul@float32") == ["value/mul@float32"]
    assert index.nearest_ids("value/add@float16")[0] == "value/add@float32"
    assert index.nearest_ids("nothing/like_it@all") == []
