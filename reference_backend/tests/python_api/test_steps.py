"""Test `mark_step` and step closures, and functions that inspect caches or dump graphs."""

from __future__ import annotations

import os

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
import pytest
import torch
from habana_frameworks.torch.core import step_closure
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId


@pytest.fixture
def flushes(monkeypatch):
    """Enable lazy mode in ``step_closure``. Return a list that collects the ``sync`` arguments of flushes."""
    sync_flags = []

    class Core:
        @staticmethod
        def lazy_flush(sync):
            sync_flags.append(sync)

        @staticmethod
        def take_hot_recipes():
            return []

    monkeypatch.setattr(step_closure, "is_lazy", lambda: True)
    monkeypatch.setattr(step_closure, "_C", Core)
    return sync_flags


def test_mark_step_flushes(flushes):
    assert htcore.mark_step() is None
    assert htcore.mark_step("hpu", sync=True) is None
    assert htcore.iter_mark_step() is None
    step_closure._mark_step_if_lazy()
    assert flushes == [False, True, False, False]


def test_each_step_is_an_event(flushes):
    events = []
    handle = EventDispatcher.instance().subscribe(EventId.MARK_STEP, lambda *event: events.append(event))
    htcore.mark_step()
    EventDispatcher.instance().unsubscribe(handle)
    htcore.mark_step()
    assert len(events) == 1


def test_closures_run_once_after_the_next_step(flushes):
    order = []
    htcore.add_step_closure(lambda *args: order.append((args, len(flushes))), (1, 2))
    htcore.add_step_closure(lambda: htcore.add_step_closure(lambda: order.append("later")))
    assert order == []
    htcore.mark_step()
    assert order == [((1, 2), 1)]
    htcore.mark_step()
    htcore.mark_step()
    assert order == [((1, 2), 1), "later"]


def test_closures_after_one_that_fails_wait_for_the_next_step(flushes):
    order = []
    htcore.add_step_closure(lambda: 1 / 0)
    htcore.add_step_closure(order.append, ("kept",))
    with pytest.raises(ZeroDivisionError):
        htcore.mark_step()
    assert order == []
    htcore.mark_step()
    assert order == ["kept"]


def test_outside_lazy_mode_closures_are_not_kept():
    htcore.add_step_closure(print, (1,))
    assert not step_closure._closures


def test_jit_cache():
    debug = ht.utils.debug
    debug._clear_jit_cache()
    before = debug._get_jit_cache_size()
    x = torch.ones(3, 5, device="hpu")
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        x.add(41.25).mul(17.5)
    assert debug._get_jit_cache_size() > before
    debug._clear_jit_cache()
    assert debug._get_jit_cache_size() == 0


def test_graph_dumps(tmp_path, monkeypatch):
    from habana_frameworks.torch.internal import bridge_config
    from habana_frameworks.torch.utils.debug import graph_dumps

    class Graph:
        def dump(self, form):
            return f"this is {form}"

    monkeypatch.chdir(tmp_path)
    assert graph_dumps.dump_if_requested(Graph(), "g") == []
    with bridge_config.env_setting("PT_HPU_GRAPH_DUMP_MODE", "compile"):
        assert graph_dumps.dump_if_requested(Graph(), "g") == []
        written = graph_dumps.dump_if_requested(Graph(), "g", "compile")
    assert [path.read_text() for path in written] == ["this is text", "this is dot"]
    assert {path.parent.name for path in written} == {".graph_dumps"}
    with bridge_config.env_setting("PT_HPU_GRAPH_DUMP_MODE", "ALL"):
        assert len(graph_dumps.dump_if_requested(Graph(), "h", "lazy")) == 2
    assert len(graph_dumps.dump_graph(Graph(), "i")) == 2


DUMPS = """
import os, sys, torch, habana_frameworks.torch as ht
from habana_frameworks.torch.internal import graph_dumps
if 'lazy' in sys.argv:
    ht._C.lazy_start(1, 5)
    graph_dumps.dump_lazy_graphs(ht._C)
x = torch.ones(4, device='hpu')
if 'lazy' in sys.argv:
    for step in range(4):
        y = (x + 1) * 2
        ht._C.lazy_flush(True)
else:
    torch.compile(lambda v: torch.relu(v) + 1, backend='hpu_backend')(x)
"""


@pytest.mark.nightly("each case starts a process and reads one variable", every=3)
@pytest.mark.parametrize(
    "mode, variables, suffixes",
    [
        ("lazy", {"PT_HPU_DUMP_IR_DOT_GRAPH": "1"}, {".dot"}),
        ("lazy", {"GRAPH_VISUALIZATION": "1"}, {".txt", ".dot"}),
        ("compile", {"PT_HPU_GRAPH_DUMP_MODE": "compile"}, {".txt", ".dot"}),
        ("compile", {"PT_HPU_GRAPH_DUMP_MODE": "compile_fx"}, {".txt", ".dot"}),
        ("compile", {"GRAPH_VISUALIZATION": "1"}, {".txt", ".dot"}),
        ("compile", {"PT_HPU_DUMP_IR_DOT_GRAPH": "1"}, set()),
        ("lazy", {}, set()),
    ],
)
def test_graphs_of_lazy_mode_and_of_compile_are_dumped(output_of, tmp_path, mode, variables, suffixes):
    """A fake Graphviz draws each DOT file."""
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "<svg>" > "$3"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    output_of(DUMPS, mode, cwd=tmp_path, PATH=path, **variables)
    written = list((tmp_path / ".graph_dumps").glob("*"))
    assert {file.suffix for file in written} == (suffixes | {".svg"} if suffixes else set())
    for file in written:
        text = file.read_text()
        operator_name = "add" if mode == "lazy" else "relu"
        assert "svg" in text if file.suffix == ".svg" else operator_name in text
        assert text.startswith("digraph") or file.suffix != ".dot"
