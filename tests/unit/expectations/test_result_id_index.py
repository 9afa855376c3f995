"""``expectations.result_id_index`` suggests similar names for an unknown name."""

from __future__ import annotations

from conformance.expectations.result_id_index import Index


def test_similar_names_of_an_unknown_name() -> None:
    index = Index(["value/add@float32", "value/mul@float32", "out/add@float32", "compile_value/add@float32"])
    assert index.nearest("value/ad@float32") == ["value/add@float32"]
    assert index.nearest("valu/add@*") == ["value/add@*"]
    assert index.nearest("out/mul@float32") == ["value/mul@float32"]
    assert index.nearest("value/add@float16")[0] == "value/add@float32"
    assert index.nearest("nothing/like_it@all") == []
