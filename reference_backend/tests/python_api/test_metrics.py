"""Test metrics, and the files that contain them."""

from __future__ import annotations

import json
import textwrap

import habana_frameworks.torch as ht
import pytest
import torch
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId

metrics = ht.hpu.metrics


def _publish_event(event, **params):
    EventDispatcher.instance().publish(EventId[event], list(params.items()))


def test_metrics_are_found_by_name():
    assert torch.hpu.metrics is metrics
    names = ("graph_compilation", "cpu_fallback", "memory_defragmentation", "device_memory")
    for name in names:
        assert metrics.metric_global(name).name() == name
        assert metrics.metric_global(name) is metrics.metric_global(name)
    for name, hint in (("recipe_cache", "PT_HPU_ENABLE_CACHE_METRICS=1"), ("nothing", "Use one of graph_")):
        with pytest.warns(RuntimeWarning, match=f"'{name}' is not a metric.*{hint}"):
            assert metrics.metric_global(name) is None


def test_graph_compilation(monkeypatch):
    with metrics.metric_localcontext("graph_compilation") as metric:
        assert metric.stats() == [("TotalNumber", 0), ("TotalTime", 0), ("AvgTime", 0)]
        _publish_event("GRAPH_COMPILATION", duration=10, recipe="a")
        _publish_event("GRAPH_COMPILATION", duration=30, recipe="b")
        assert metric.stats() == [("TotalNumber", 2), ("TotalTime", 40), ("AvgTime", 20)]
        monkeypatch.setenv("PT_HPU_METRICS_GC_DETAILS", "1")
        assert metric.stats()[3] == ("Recipes", [{"Recipe": "a", "Time": 10}, {"Recipe": "b", "Time": 30}])


def test_memory_defragmentation():
    with metrics.metric_localcontext("memory_defragmentation") as metric:
        _publish_event("MEMORY_DEFRAGMENTATION", success=1, milliseconds=2)
        _publish_event("MEMORY_DEFRAGMENTATION", success=0, milliseconds=4)
    assert dict(metric.stats()) == {"TotalNumber": 2, "TotalSuccessful": 1, "AvgTime": 3.0, "MaxTime": 4.0}


def test_device_memory():
    tensor = torch.ones(1000, device="hpu")
    stats = dict(metrics.metric_global("device_memory").stats())
    assert stats["InUse"] == torch.hpu.memory_allocated() >= tensor.nbytes


def test_a_metric_collects_between_start_and_stop():
    changed = []
    with metrics.metric_localcontext("cpu_fallback") as metric:
        metric.on_metric_change(lambda metric_view: changed.append(dict(metric_view.stats())["TotalNumber"]))
        metric.start()
        _publish_event("CPU_FALLBACK", op_name="aten::a")
        metric.stop()
        _publish_event("CPU_FALLBACK", op_name="aten::b")
        metric.start()
        _publish_event("CPU_FALLBACK", op_name="aten::a")
        assert dict(metric.stats()) == {"TotalNumber": 2, "FallbackOps": {"aten::a": 2}}
        metric.reset()
        assert dict(metric.stats()) == {"TotalNumber": 0, "FallbackOps": {}}
    _publish_event("CPU_FALLBACK", op_name="aten::c")
    assert dict(metric.stats())["TotalNumber"] == 0
    assert changed == [1, 2]


def test_unknown_metric():
    with (
        pytest.raises(
            metrics.MetricNotFound, match=r"'nothing' is not a metric\. Use one of graph_compilation"
        ),
        metrics.metric_localcontext("nothing"),
    ):
        pass


FALLBACKS = """
    import torch, habana_frameworks.torch as ht
    from habana_frameworks.torch.hpu.metrics import metric_global, metric_localcontext
    x = torch.ones(3, 3, device="hpu")
    x.tril()
    with metric_localcontext("cpu_fallback") as local:
        x.tril(); x.tril()
    x + 1
    print(dict(local.stats()))
    print(dict(metric_global("cpu_fallback").stats()))
    print(ht.utils.debug._get_fallback_op_count())
"""


def test_fallbacks_of_a_program(output_of):
    local, whole, counts = map(
        eval, output_of(textwrap.dedent(FALLBACKS), HPU_REFERENCE_FALLBACK_OPS="tril").splitlines()
    )
    (name,) = local["FallbackOps"]
    assert name.startswith("aten::tril")
    assert local == {"TotalNumber": 2, "FallbackOps": {name: 2}}
    assert whole == {"TotalNumber": 3, "FallbackOps": {name: 3}}
    assert sum(counts.values()) == 3


def test_all_metrics_are_zero_in_a_new_process(output_of):
    code = (
        "import habana_frameworks.torch as ht\n"
        "for name in ('graph_compilation', 'cpu_fallback', 'memory_defragmentation', 'recipe_cache', "
        "'device_memory'):\n"
        "    print(all(not value for key, value in ht.hpu.metrics.metric_global(name).stats()))\n"
        "print(ht.hpu.is_initialized())"
    )
    assert output_of(code, PT_HPU_ENABLE_CACHE_METRICS="1").split() == ["True"] * 5 + ["False"]


def test_recipe_cache_is_registered_on_request(output_of):
    code = textwrap.dedent("""
        import habana_frameworks.torch as ht
        from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
        publish = EventDispatcher.instance().publish
        publish(EventId.CACHE_MISS, [("recipe_id", "r")])
        for _ in range(2): publish(EventId.CACHE_HIT, [("recipe_id", "r")])
        print(ht.hpu.metrics.metric_global("recipe_cache").stats())
    """)
    assert output_of(code, PT_HPU_ENABLE_CACHE_METRICS="true") == str(
        [("TotalHit", 2), ("RecipeHit", {"r": 2}), ("TotalMiss", 1), ("RecipeMiss", {"r": 1})]
    )


LAZY = """
    import torch, habana_frameworks.torch as ht
    from habana_frameworks.torch import _C
    # Enable lazy mode as PT_HPU_LAZY_MODE=1 does. The bridge rejects the variable on public builds of torch.
    _C.lazy_start(1)

    def run(size):
        x = torch.ones(size, device="hpu")
        y = (x * 3).relu()
        _C.lazy_flush(True)

    def totals():
        compiled = dict(ht.hpu.metrics.metric_global("graph_compilation").stats())
        cached = dict(ht.hpu.metrics.metric_global("recipe_cache").stats())
        print(compiled["TotalNumber"], cached["TotalMiss"], cached["TotalHit"], len(cached["RecipeMiss"]))

    totals()
    for size in range(1, 6): run(size)
    totals()
    for _ in range(10): run(17)
    totals()
"""


def test_graphs_of_lazy_mode(output_of):
    """Each shape causes a compilation and a cache miss; a repeated shape causes a hit."""
    lines = output_of(textwrap.dedent(LAZY), PT_HPU_ENABLE_CACHE_METRICS="1").splitlines()
    assert lines == ["0 0 0 0", "5 5 0 5", "6 6 9 6"]


def test_captured_graphs_are_compilations():
    with metrics.metric_localcontext("graph_compilation") as metric:
        x = torch.ones(3, device="hpu")
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            x + 1
        graph.replay()
        graph.replay()
    assert dict(metric.stats())["TotalNumber"] == 1


def test_dump_on_request(tmp_path):
    metrics.metrics_dump(tmp_path / "m.json")
    records = json.loads((tmp_path / "m.json").read_text())
    assert [record["metric_name"] for record in records] == [
        "graph_compilation",
        "cpu_fallback",
        "memory_defragmentation",
        "device_memory",
    ]
    assert all(record["triggered_by"] == "user" for record in records)
    assert set(records[0]) == {"metric_name", "triggered_by", "generated_on", "statistics"}
    assert records[0]["statistics"] == dict(metrics.metric_global("graph_compilation").stats())
    metrics.metrics_dump(str(tmp_path / "m.txt"), metrics.MetricDumpFormat.text)
    lines = (tmp_path / "m.txt").read_text().splitlines()
    assert lines[:2] == ["Metric name:\tgraph_compilation", "Triggered by:\tuser"]
    assert lines[2].startswith("Generated on:\t")
    assert lines[3] == "Statistics:"
    assert lines[4].startswith("\tTotalNumber:\t")
    with pytest.raises(metrics.InvalidMetricDumpFileFormat, match="'xml' is not a format"):
        metrics.metrics_dump(tmp_path / "m.xml", "xml")


USE = "import torch, habana_frameworks.torch\nx = torch.ones(3, 3, device='hpu')\nx.tril()\n"


def test_file_at_the_end_of_the_process(output_of, tmp_path):
    environment = {"PT_HPU_METRICS_FILE": "m.a.json", "HPU_REFERENCE_FALLBACK_OPS": "tril", "RANK": "3"}
    output_of(USE, cwd=tmp_path, **environment)
    output_of(USE, cwd=tmp_path, **environment)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.a-rank3-1.json", "m.a-rank3.json"]
    for path in tmp_path.iterdir():
        records = json.loads(path.read_text())
        assert {record["triggered_by"] for record in records} == {"process_exit"}
        by_name = {record["metric_name"]: record["statistics"] for record in records}
        assert by_name["cpu_fallback"]["TotalNumber"] == 1


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"HABANA_PT_METRICS_FILE": "m.json", "OMPI_COMM_WORLD_RANK": "1"}, "m-rank1.json"),
        ({"PT_HPU_METRICS_FILE": "m.json", "HABANA_PT_METRICS_FILE": "n.json"}, "m.json"),
        ({"PT_HPU_METRICS_FILE": "m"}, "m"),
    ],
)
def test_name_of_the_file(output_of, tmp_path, environment, name):
    output_of(USE, cwd=tmp_path, **environment)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_no_file_without_device(output_of, tmp_path):
    output_of("import habana_frameworks.torch", cwd=tmp_path, PT_HPU_METRICS_FILE="m.json")
    assert list(tmp_path.iterdir()) == []


def test_triggers_select_when_metrics_are_written(output_of, tmp_path):
    code = USE + (
        "from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId\n"
        "publish = EventDispatcher.instance().publish\n"
        "publish(EventId.MARK_STEP); publish(EventId.CUSTOM_EVENT); x.tril()"
    )
    output_of(
        code,
        cwd=tmp_path,
        PT_HPU_METRICS_FILE="m.json",
        PT_HPU_METRICS_DUMP_TRIGGERS="mark_step, metric_change,user",
        HPU_REFERENCE_FALLBACK_OPS="tril",
    )
    records = json.loads((tmp_path / "m.json").read_text())
    changes = [r for r in records if r["triggered_by"] == "metric_change"]
    assert [r["statistics"]["TotalNumber"] for r in changes] == [1, 2]
    for trigger in ("mark_step", "user"):
        names = [r["metric_name"] for r in records if r["triggered_by"] == trigger]
        assert len(names) == len(set(names)) == 4
    assert {r["triggered_by"] for r in records} == {"metric_change", "mark_step", "user"}


def test_text_file(output_of, tmp_path):
    output_of(USE, cwd=tmp_path, PT_HPU_METRICS_FILE="m.txt", PT_HPU_METRICS_FILE_FORMAT="text")
    text = (tmp_path / "m.txt").read_text()
    assert text.count("Metric name:\t") == 4
    assert "Triggered by:\tprocess_exit" in text


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("PT_HPU_METRICS_FILE_FORMAT", "xml", "InvalidMetricDumpFileFormat: 'xml' is not a format"),
        ("PT_HPU_METRICS_DUMP_TRIGGERS", "mark_step,never", "InvalidMetricDumpTrigger: 'never' in"),
    ],
)
def test_bad_variables_are_errors_at_import(run_python, variable, value, error):
    done = run_python("import habana_frameworks.torch", PT_HPU_METRICS_FILE="m", **{variable: value})
    assert error in done.stderr.splitlines()[-1]


def test_a_forked_child_does_not_write_the_file(output_of, tmp_path):
    code = USE + ("import os, sys\nif os.fork() == 0: sys.exit(0)\nassert os.wait()[1] == 0")
    output_of(code, cwd=tmp_path, PT_HPU_METRICS_FILE="m.json")
    assert len(json.loads((tmp_path / "m.json").read_text())) == 4
