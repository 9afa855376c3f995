"""Ends of steps, and the views into the engine that go with them."""

from __future__ import annotations

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
import pytest
import torch
from habana_frameworks.torch.core import step_closure
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId


@pytest.fixture
def flushes(monkeypatch):
    """Lazy mode as `step_closure` sees it; what it asks the core for is recorded."""
    asked = []

    class Core:
        @staticmethod
        def lazy_flush(sync):
            asked.append(sync)

        @staticmethod
        def take_hot_recipes():
            return []

    monkeypatch.setattr(step_closure, "is_lazy", lambda: True)
    monkeypatch.setattr(step_closure, "_C", Core)
    return asked


def test_mark_step_flushes(flushes):
    assert htcore.mark_step() is None
    assert htcore.mark_step("hpu", sync=True) is None
    assert htcore.iter_mark_step() is None
    step_closure._mark_step_if_lazy()
    assert flushes == [False, True, False, False]


def test_each_step_is_an_event(flushes):
    got = []
    handle = EventDispatcher.instance().subscribe(EventId.MARK_STEP, lambda *event: got.append(event))
    htcore.mark_step()
    EventDispatcher.instance().unsubscribe(handle)
    htcore.mark_step()
    assert len(got) == 1


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
