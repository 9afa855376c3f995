"""PT_HPU_RECIPE_CACHE_CONFIG: what it says, and what the disk cache makes of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from habana_frameworks.torch.internal.fusion import cache_config, service
from habana_frameworks.torch.internal.fusion import policy as fusion_policy
from habana_frameworks.torch.internal.fusion.cache_config import CacheConfig


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", CacheConfig()),
        (",false,1024", CacheConfig()),
        (",false,1024,false", CacheConfig()),
        ("/tmp/r,True,5", CacheConfig(Path("/tmp/r"), True, 5)),
        ("/tmp/r,0,7,true", CacheConfig(Path("/tmp/r"), False, 7, True)),
    ],
)
def test_fields(text, found):
    assert cache_config.parse(text) == found


@pytest.mark.parametrize(
    "text", ["/tmp/r", "/tmp/r,false", "/tmp/r,maybe,5", "/tmp/r,false,big", "a,0,1,0,0"]
)
def test_mistakes_are_named(text):
    with pytest.raises(ValueError, match="PT_HPU_RECIPE_CACHE_CONFIG=") as error:
        cache_config.parse(text)
    assert text in str(error.value)


def artifact(folder: Path, name: str, megabytes: int, used: int) -> Path:
    made = folder / name
    made.mkdir(parents=True)
    (made / "convention.json").write_text("{}")
    (made / "code.so").write_bytes(bytes(megabytes << 20))
    os.utime(made, (used, used))
    return made


def test_the_least_recently_used_go_first(tmp_path):
    old, middle, new = (artifact(tmp_path, name, 2, used) for used, name in enumerate("abc", 1000))
    unfinished = tmp_path / ".d-writing"
    unfinished.mkdir()
    cache_config.trim(tmp_path, 5)
    assert [old.exists(), middle.exists(), new.exists(), unfinished.exists()] == [False, True, True, True]
    cache_config.trim(tmp_path, 0)
    assert middle.exists()


def test_delete_empties_the_folder_at_the_first_use(tmp_path, monkeypatch):
    kept = artifact(tmp_path, "a", 1, 1000)
    monkeypatch.delenv("HPU_REFERENCE_FUSION_CACHE", raising=False)
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path},false,1024")
    assert service.Service(processes=0).folder == tmp_path
    assert kept.exists()
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path},true,1024")
    service.Service(processes=0)
    assert not kept.exists()


def test_code_that_was_cut_short_is_removed_and_raises_nothing(tmp_path, caplog):
    import habana_frameworks.torch as ht
    import torch

    graph = ht._C.Graph()
    x = torch.ones(4, device="hpu")
    graph.begin()
    y = x + 1
    graph.end()
    folder = artifact(tmp_path, "cut", 0, 1000)
    broken = SimpleNamespace(folder=folder, code=folder / "code.so", convention={"arguments": []})
    fusion_policy.install(graph, broken)
    assert not folder.exists()
    assert "cannot be used" in caplog.text
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6.0] * 4
    assert graph.kind == "interpreted"
