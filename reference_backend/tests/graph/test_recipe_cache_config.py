"""Test `PT_HPU_RECIPE_CACHE_CONFIG`: its format, and its effect on the disk cache."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from habana_frameworks.torch.internal.fusion import cache_config, service
from habana_frameworks.torch.internal.fusion import policy as fusion_policy
from habana_frameworks.torch.internal.fusion.cache_config import CacheConfig
from habana_frameworks.torch.internal.fusion.description import VERSION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CacheConfig()),
        (",false,1024", CacheConfig()),
        (",false,1024,false", CacheConfig()),
        ("/tmp/r,True,5", CacheConfig(Path("/tmp/r"), True, 5)),
        ("/tmp/r,0,7,true", CacheConfig(Path("/tmp/r"), False, 7, True)),
    ],
)
def test_fields(text, expected):
    assert cache_config.parse_cache_config(text) == expected


@pytest.mark.parametrize(
    "text", ["/tmp/r", "/tmp/r,false", "/tmp/r,maybe,5", "/tmp/r,false,big", "a,0,1,0,0"]
)
def test_invalid_value_raises_and_is_named(text):
    with pytest.raises(ValueError, match="PT_HPU_RECIPE_CACHE_CONFIG=") as error:
        cache_config.parse_cache_config(text)
    assert text in str(error.value)


def create_artifact(folder: Path, name: str, megabytes: int, used: int) -> Path:
    artifact_folder = folder / name
    artifact_folder.mkdir(parents=True)
    (artifact_folder / "convention.json").write_text("{}")
    (artifact_folder / "code.so").write_bytes(bytes(megabytes << 20))
    os.utime(artifact_folder, (used, used))
    return artifact_folder


def test_least_recently_used_artifacts_are_removed_first(tmp_path):
    old, middle, new = (create_artifact(tmp_path, name, 2, used) for used, name in enumerate("abc", 1000))
    unfinished = tmp_path / ".d-writing"
    unfinished.mkdir()
    written = create_artifact(tmp_path, ".e-written", 9, 900)  # not renamed to its final name yet
    cache_config.trim_cache(tmp_path, 5)
    assert [old.exists(), middle.exists(), new.exists(), unfinished.exists()] == [False, True, True, True]
    cache_config.trim_cache(tmp_path, 0)
    assert middle.exists()
    cache_config.empty_cache(tmp_path)
    assert [middle.exists(), unfinished.exists(), written.exists()] == [False, True, True]


def test_files_of_inductor_are_removed_unless_a_compilation_may_use_them(tmp_path):
    files = [tmp_path / cache_config.INDUCTOR / "fxgraph" / name for name in ("old", "older", "new")]
    now = time.time()
    for file, used in zip(files, (now - 1000, now - 2000, now), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(2 << 20))
        os.utime(file, (used, used))
    cache_config.trim_cache(tmp_path, 5)
    assert [file.exists() for file in files] == [True, False, True]
    cache_config.trim_cache(tmp_path, 1)
    assert [file.exists() for file in files] == [False, False, True]
    os.utime(files[0].parent / "new", (now - 10**6, now - 10**6))
    files[0].write_bytes(b"written by another rank of this job")
    cache_config.empty_cache(tmp_path)
    assert [file.exists() for file in files] == [True, False, False]


def test_variable_of_the_cache_is_restored_by_the_last_thread(tmp_path, monkeypatch):
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path},false,1024")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "before")
    first, second = cache_config.use_configured_inductor_cache(), cache_config.use_configured_inductor_cache()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / cache_config.INDUCTOR)
    second.__exit__(None, None, None)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "before"


def test_unusable_path_is_named_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path / 'file'},false,1024")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "before")
    with pytest.warns(UserWarning, match="compiled code cannot be written to .*Choose a path") as seen:
        for _ in range(2):
            with cache_config.use_configured_inductor_cache():
                assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "before"
    assert len(seen) == 1


def test_delete_option_empties_the_folder_at_the_first_use(tmp_path, monkeypatch):
    artifact_folder = create_artifact(tmp_path, "a", 1, 1000)
    monkeypatch.delenv("HPU_REFERENCE_FUSION_CACHE", raising=False)
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path},false,1024")
    assert service.CompilationService(processes=0).folder == tmp_path
    assert artifact_folder.exists()
    monkeypatch.setenv(cache_config.VARIABLE, f"{tmp_path},true,1024")
    monkeypatch.setattr(cache_config, "_emptied", set())
    service.CompilationService(processes=0)
    assert not artifact_folder.exists()
    artifact_folder = create_artifact(tmp_path, "b", 1, 1000)
    with cache_config.use_configured_inductor_cache():
        assert artifact_folder.exists()  # a process empties the cache only at its first use


def test_truncated_code_is_removed_without_an_error(tmp_path, caplog):
    import habana_frameworks.torch as ht
    import torch

    graph = ht._C.Graph()
    x = torch.ones(4, device="hpu")
    graph.begin()
    y = x + 1
    graph.end()
    folder = create_artifact(tmp_path, "cut", 0, 1000)
    broken = SimpleNamespace(folder=folder, code=folder / "code.so", convention={"arguments": []})
    fusion_policy.install_fused_code(graph, broken)
    assert not folder.exists()
    assert "cannot be loaded" in caplog.text
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6.0] * 4
    assert graph.kind == "interpreted"


LAZY = """
import sys, time, torch, habana_frameworks.torch as ht
from habana_frameworks.torch.internal.fusion import policy, service
C = ht._C
C.lazy_start(1, 5)
x = torch.arange(8, dtype=torch.float32, device='hpu')

def end_step():
    # End the step as mark_step() does. mark_step() itself does nothing with a public torch.
    C.lazy_flush(False)
    policy.fuse_hot_recipes(C)

def programs():
    stats = C.recipe_cache_stats()
    return stats['programs_loaded'], stats['programs_compiled']

end = time.monotonic() + 270
steps = 0
while programs() == (0, 0) and time.monotonic() < end:
    y = torch.relu(x * 2 - 3) + x
    end_step()
    steps += 1
    if steps > 100:
        service.poll()
        time.sleep(0.02)
# A few more steps, which run the compiled program.
for _ in range(3):
    y = torch.relu(x * 2 - 3) + x
    end_step()
print(*programs(), steps <= 100, y.tolist() == [max(i * 2 - 3, 0) + i for i in range(8)])
"""


@pytest.mark.nightly("trains several times in new processes")
@pytest.mark.skipif(service.cxx_compiler() is None, reason="needs a C++ compiler")
def test_lazy_recipes_are_loaded_from_disk(output_of, tmp_path):
    """The first process compiles the program. Later, two concurrent processes load the program from disk."""
    environment = {"HPU_REFERENCE_FUSE_AFTER": "1", cache_config.VARIABLE: f"{tmp_path},false,1024"}

    def run_process(_):
        return output_of(LAZY, timeout=290, **environment)

    assert run_process(0) == "0 1 False True"
    (recipe_folder,) = tmp_path.iterdir()
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run_process, range(2))) == ["1 0 True True"] * 2
    assert list(tmp_path.iterdir()) == [recipe_folder]


def test_incomplete_artifact_is_replaced(tmp_path):
    broken = create_artifact(tmp_path, "digest", 1, 1000)
    (broken / "code.so").unlink()
    staging = create_artifact(tmp_path, ".digest-writing", 1, 1000)
    (staging / "convention.json").write_text(f'{{"version": {VERSION}}}')
    published = service.CompilationService(processes=0, folder=tmp_path)._publish(staging, "digest")
    assert published is not None and published.folder == broken
    assert [entry.name for entry in tmp_path.iterdir()] == ["digest"]


#: Script that requests 12 programs from a worker that returns code immediately. It prints three
#: numbers: artifacts that the counter counted, artifacts that the listener received, and failures.
MANY = """
import pathlib, sys, time
from types import SimpleNamespace
from habana_frameworks.torch.internal.fusion import service as module
from habana_frameworks.torch.internal.fusion.description import VERSION
folder, worker, megabytes = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
module.WORKER = worker
module.dumps, counts, got = str, [0, 0], []
def count(loaded):
    counts[loaded] += 1
service = module.Service(2, folder, count)
for number in range(12):
    service.request({'number': number}, got.append)
end = time.monotonic() + 200
while not service.is_idle() and time.monotonic() < end:
    service.poll()
    time.sleep(0.01)
print(sum(counts), len(got), len(service.failures))
"""
WORKER = """
import pathlib, sys
out = pathlib.Path(sys.argv[2])
(out / 'code.so').write_bytes(bytes(1 << 20))
(out / 'convention.json').write_text('{"version": VERSION}')
"""


@pytest.mark.nightly("repeats writes to meet a rare order of events")
@pytest.mark.parametrize("megabytes", [1024, 3])
def test_two_processes_that_write_and_trim_at_once(run_python, tmp_path, megabytes):
    folder, worker = tmp_path / "cache", tmp_path / "worker.py"
    worker.write_text(WORKER.replace("VERSION", str(VERSION)))
    environment = {cache_config.VARIABLE: f"{folder},false,{megabytes}"}

    def run_process(_):
        return run_python(MANY, str(folder), str(worker), str(megabytes), timeout=250, **environment)

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(run_process, range(2)))
    for done in both:
        assert done.returncode == 0, done.stderr
        received, heard, failed = map(int, done.stdout.split())
        # A program may be removed between its compilation and its use only if the cache is full.
        assert received == heard and received + failed == 12 and (failed == 0 or megabytes == 3), done.stderr
    entries = list(folder.iterdir())
    assert len(entries) == 12 if megabytes == 1024 else 1 <= len(entries) <= 6
    assert not any(entry.name.startswith(".") for entry in entries)


def test_deprecated_variables(tmp_path, monkeypatch):
    monkeypatch.delenv(cache_config.VARIABLE, raising=False)
    monkeypatch.setenv("PT_CACHE_FOLDER_DELETE", "1")
    with pytest.warns(
        FutureWarning,
        match=r"PT_CACHE_FOLDER_DELETE is the old syntax\. Use PT_HPU_RECIPE_CACHE_CONFIG=,true,1024",
    ):
        assert cache_config.cache_config_from_environment() == CacheConfig(None, True)
    monkeypatch.setenv("PT_RECIPE_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("PT_CACHE_FOLDER_SIZE_MB", "7")
    with pytest.warns(FutureWarning, match=f"Use PT_HPU_RECIPE_CACHE_CONFIG={tmp_path},true,7"):
        assert cache_config.cache_config_from_environment() == CacheConfig(tmp_path, True, 7)
    monkeypatch.setenv(cache_config.VARIABLE, "/tmp/r,0,5")
    assert cache_config.cache_config_from_environment() == CacheConfig(Path("/tmp/r"), False, 5)


COMPILED = """
import torch, habana_frameworks.torch as ht
from torch._dynamo.utils import counters
layers = torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)
torch.manual_seed(0)
module = torch.nn.Sequential(*layers).to("hpu")
compiled = torch.compile(module, backend="hpu_backend")
compiled(torch.ones(3, 8, device="hpu")).sum().backward()
hits, misses = (counters["inductor"][f"fxgraph_cache_{outcome}"] for outcome in ("hit", "miss"))
print(hits, misses, module[0].weight.grad.isfinite().all().item())
"""


@pytest.mark.nightly("compiles in new processes")
@pytest.mark.skipif(service.cxx_compiler() is None, reason="needs a C++ compiler")
def test_compiled_recipes_are_shared_by_processes(output_of, tmp_path):
    """Two concurrent processes compile a program. Later processes load it from the disk."""
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"

    def run_process(delete):
        environment = {
            cache_config.VARIABLE: f"{cache},{delete},1024",
            "TORCHINDUCTOR_CACHE_DIR": str(elsewhere),
        }
        return output_of(COMPILED, timeout=290, **environment).split()

    with ThreadPoolExecutor(2) as pool:
        for hits, misses, finite in pool.map(run_process, ["false", "false"]):
            assert int(hits) + int(misses) == 2 and finite == "True"
    assert sorted(path.name for path in cache.iterdir()) == [cache_config.INDUCTOR]
    assert not elsewhere.exists() or not list(elsewhere.rglob("*.*"))
    assert run_process("false") == ["2", "0", "True"]
    assert run_process("true") == ["0", "2", "True"]
