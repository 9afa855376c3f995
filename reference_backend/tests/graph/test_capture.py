"""Test `HPUGraph` and the context manager `hpu.graph`."""

from __future__ import annotations

import threading

import habana_frameworks.torch as ht
import pytest
import torch

hpu = ht.hpu


def _capture_graph(function, dry_run=False):
    graph = hpu.HPUGraph()
    with hpu.graph(graph, dry_run=dry_run):
        result = function()
    return graph, result


def test_capture_executes_and_replay_follows_the_inputs():
    x = torch.arange(4.0, device="hpu")
    graph, y = _capture_graph(lambda: x * 2 + 1)
    assert y.tolist() == [1, 3, 5, 7]
    x.copy_(torch.full((4,), 10.0))
    assert y.tolist() == [1, 3, 5, 7]
    graph.replay()
    assert y.tolist() == [21] * 4
    graph.replay(asynchronous=True)
    hpu.synchronize()
    assert y.tolist() == [21] * 4


def test_in_place_work_is_repeated():
    x = torch.zeros(3, device="hpu")
    graph, _ = _capture_graph(lambda: x.add_(1))
    assert x.tolist() == [1, 1, 1]
    for _ in range(4):
        graph.replay()
    assert x.tolist() == [5, 5, 5]


def test_dry_run_executes_nothing():
    x = torch.zeros(3, device="hpu")
    graph, y = _capture_graph(lambda: x.add_(1) * 2, dry_run=True)
    assert x.tolist() == [0, 0, 0]
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [2, 2, 2])


def test_views_and_intermediate_results():
    x = torch.arange(6.0, device="hpu").reshape(2, 3)

    def transpose_and_sum():
        t = x.t().contiguous()
        t[1:] *= 10
        return t.sum(1), t[0]

    graph, (total, first) = _capture_graph(transpose_and_sum)
    expected = [3.0, 50.0, 70.0], [0.0, 3.0]
    assert (total.tolist(), first.tolist()) == expected
    total.zero_()
    first.zero_()
    graph.replay()
    assert (total.tolist(), first.tolist()) == expected


def test_training_step_with_backward_is_captured():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    batches = [(torch.randn(4, 5), torch.randint(3, (4,))) for _ in range(5)]
    device_model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    device_model.load_state_dict(model.state_dict())
    device_model.to("hpu")

    def step(module, optimizer, data, target):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(module(data), target)
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = [step(model, optimizer, *batch).item() for batch in batches]

    optimizer = torch.optim.SGD(device_model.parameters(), lr=0.1)
    data, target = (tensor.to("hpu") for tensor in batches[0])
    graph, loss = _capture_graph(lambda: step(device_model, optimizer, data, target))
    losses = [loss.item()]
    for batch in batches[1:]:
        data.copy_(batch[0])
        target.copy_(batch[1])
        graph.replay()
        losses.append(loss.item())
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


def test_replays_draw_new_reproducible_numbers():
    graph, noise = _capture_graph(lambda: torch.rand(100, device="hpu"))
    hpu.manual_seed(3)
    runs = []
    for _ in range(3):
        graph.replay()
        runs.append(noise.cpu().clone())
    assert not torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[1], runs[2])
    hpu.manual_seed(3)
    graph.replay()
    assert torch.equal(noise.cpu(), runs[0])


def test_replayv2_copies():
    a, b = torch.zeros(2, device="hpu"), torch.zeros(2, device="hpu")
    graph, total = _capture_graph(lambda: a + b)
    graph.replayV2([a, b], [torch.ones(2, device="hpu"), torch.full((2,), 5.0)])
    assert (total.tolist(), a.tolist(), b.tolist()) == ([6, 6], [1, 1], [5, 5])
    with pytest.raises(ValueError, match="1 tensors cannot be copied to 2"):
        graph.replayV2([a, b], [a])


def _capture_and_mark_outputs(function, *inputs):
    graph, outputs = _capture_graph(lambda: function(*inputs))
    graph.mark_user_inputs(inputs)
    graph.mark_user_outputs(outputs)
    return graph, outputs


def test_replayv3_uses_the_passed_tensors():
    a, b = torch.zeros(2, device="hpu"), torch.zeros(2, device="hpu")
    graph, out = _capture_and_mark_outputs(lambda a, b: a.add_(1) * 10 + b, a, b)
    assert (a.tolist(), out.tolist()) == ([1, 1], [10, 10])
    first_input, more = torch.full((2,), 4.0, device="hpu"), torch.full((2,), 7.0, device="hpu")
    results = graph.replayV3([first_input, more])
    assert out.tolist() == [57, 57]
    assert results[0] is out
    assert first_input.tolist() == [5, 5]
    assert (a.tolist(), b.tolist()) == ([1, 1], [0, 0])
    graph.replay()
    assert (a.tolist(), out.tolist()) == ([2, 2], [20, 20])


def test_replay_with_inputs_makes_new_results():
    a = torch.zeros(2, device="hpu")
    graph, out = _capture_and_mark_outputs(lambda a: a * 2, a)
    first = graph.replay_with_inputs([torch.ones(2, device="hpu")])
    second = graph.replay_with_inputs([torch.full((2,), 3.0, device="hpu")])
    assert (first[0].tolist(), second[0].tolist(), out.tolist()) == ([2, 2], [6, 6], [0, 0])
    graph.replayV3([torch.full((2,), 5.0, device="hpu")])
    assert (first[0].tolist(), second[0].tolist(), out.tolist()) == ([2, 2], [6, 6], [10, 10])


def test_replayv3_without_marked_outputs():
    a = torch.zeros(2, device="hpu")
    graph, out = _capture_graph(lambda: a.add_(1) * 10)
    graph.mark_user_inputs([a])
    first_input = torch.full((2,), 4.0, device="hpu")
    graph.replayV3([first_input])
    assert (out.tolist(), first_input.tolist()) == ([50, 50], [5, 5])


def test_exchanged_tensors_must_fit():
    graph, _ = _capture_and_mark_outputs(lambda a: a * 2, torch.zeros(2, device="hpu"))
    for wrong in (
        torch.zeros(3, device="hpu"),
        torch.zeros(2, device="hpu", dtype=torch.int32),
        torch.zeros(2),
    ):
        with pytest.raises(RuntimeError, match=r"input 0 of this graph is a torch\.float32 tensor"):
            graph.replayV3([wrong])
    with pytest.raises(RuntimeError, match="takes 1 tensors"):
        graph.replayV3([])


def test_exchange_needs_marks():
    graph, _ = _capture_graph(lambda: torch.zeros(1, device="hpu") + 1)
    with pytest.raises(RuntimeError, match=r"no marked inputs\. Call mark_user_inputs"):
        graph.replayV3([])


def test_inputs_in_other_layouts_and_at_other_offsets():
    a = torch.arange(6.0, device="hpu").reshape(2, 3)
    graph, out = _capture_and_mark_outputs(lambda a: a.sum(1), a)
    block = torch.arange(24.0, device="hpu")
    for other_layout in (
        block[6:12].reshape(2, 3),
        block.reshape(4, 6)[2:, 1:4],
        block[:6].reshape(3, 2).t(),
    ):
        graph.replayV3([other_layout])
        assert out.tolist() == other_layout.cpu().sum(1).tolist()


def test_outputs_that_are_inputs():
    a, b = torch.zeros(2, 2, device="hpu"), torch.ones(2, device="hpu")
    graph, _ = _capture_and_mark_outputs(lambda a: (a, a[1], b, a + b), a)
    new_input = torch.full((2, 2), 5.0, device="hpu")
    same, view, fixed, new = graph.replay_with_inputs([new_input])
    assert same.data_ptr() == new_input.data_ptr()
    assert view.data_ptr() == new_input[1].data_ptr()
    assert fixed.data_ptr() == b.data_ptr()
    assert new.tolist() == [[6, 6], [6, 6]]


def test_outputs_that_share_memory():
    a = torch.arange(4.0, device="hpu")

    def double_and_view(a):
        whole = a * 2
        return whole, whole[1:3], whole.view(2, 2).t()

    graph, _ = _capture_and_mark_outputs(double_and_view, a)
    whole, part, turned = graph.replay_with_inputs([torch.ones(4, device="hpu")])
    whole[1] = 9
    assert (part.tolist(), turned.tolist()) == ([9, 2], [[2, 2], [9, 2]])


def test_inputs_that_share_memory():
    a = torch.zeros(4, device="hpu")
    graph, out = _capture_and_mark_outputs(lambda front, back: back.add_(front) * 2, a[:2], a[2:])
    new_input = torch.tensor([1.0, 2.0, 10.0, 20.0], device="hpu")
    graph.replayV3([new_input[:2], new_input[2:]])
    assert (out.tolist(), new_input.tolist()) == ([22, 44], [1, 2, 11, 22])


def test_match_indices():
    a, b, c = (torch.ones(2, device="hpu") for _ in range(3))
    graph, _ = _capture_and_mark_outputs(lambda a, b, c: a + c, a, b, c)
    assert graph.get_user_input_match_indices() == [0, 2]


def test_cleared_inputs():
    before = hpu.memory_allocated()
    a = torch.zeros(1 << 18, device="hpu")
    graph, _ = _capture_and_mark_outputs(lambda a: a.sum(), a)
    graph.clear_inputs()
    del a
    assert hpu.memory_allocated() - before < 1 << 20
    with pytest.raises(RuntimeError, match="inputs of this graph were cleared"):
        graph.replay()
    (out,) = graph.replayV3([torch.ones(1 << 18, device="hpu")])
    assert out.item() == 1 << 18


def test_capture_in_a_capture():
    graph, inner_graph = hpu.HPUGraph(), hpu.HPUGraph()
    with (
        pytest.raises(RuntimeError, match="GRAPH:: graph Capture already in progress"),
        hpu.graph(graph),
    ):
        inner_graph.capture_begin()
    assert not hpu.is_current_stream_capturing()


def test_capture_ends_on_its_stream():
    graph, stream = hpu.HPUGraph(), hpu.Stream()
    with hpu.stream(stream):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match=r"Capture must end on the same stream it began on\."):
        graph.capture_end()
    assert not hpu.is_current_stream_capturing()


def test_replay_in_a_capture():
    first, _ = _capture_graph(lambda: torch.ones(1, device="hpu") + 1)
    with pytest.raises(RuntimeError, match="Capture in progress"), hpu.graph(hpu.HPUGraph()):
        first.replay()


def test_replay_of_nothing_warns_once_and_does_nothing(output_of):
    """Some programs replay a list of graphs without having captured all of them."""
    code = """
import warnings, torch, habana_frameworks.torch
hpu = torch.hpu
warnings.simplefilter("always")
x = torch.ones(1, device="hpu")
used = hpu.HPUGraph()
with hpu.graph(used):
    x.add_(1)
used.reset()
with warnings.catch_warnings(record=True) as caught:
    for graph in (hpu.HPUGraph(), hpu.HPUGraph(), used):
        print(graph.replay(), graph.replay(asynchronous=True), graph.replayV2([], []))
print(x.item(), *(warning.message for warning in caught))
"""
    *replays, last = output_of(code).splitlines()
    assert replays == ["None None None"] * 3
    assert last == (
        "2.0 replay of an HPUGraph that was never captured does nothing. Capture the graph with "
        "torch.hpu.graph first."
    )


def test_empty_graph_raises_if_its_results_are_needed():
    with pytest.raises(RuntimeError):
        hpu.HPUGraph().capture_end()
    with pytest.raises(RuntimeError, match="no marked inputs"):
        hpu.HPUGraph().replayV3([])
    with pytest.raises(RuntimeError, match="no marked outputs"):
        hpu.HPUGraph().replay_with_inputs([])
    with pytest.raises(RuntimeError, match="Capture in progress"), hpu.graph(hpu.HPUGraph()):
        hpu.HPUGraph().replay()


def test_reset_graph_can_be_captured_again():
    graph, _ = _capture_graph(lambda: torch.ones(1, device="hpu") + 1)
    graph.reset()
    x = torch.zeros(1, device="hpu")
    with hpu.graph(graph):
        y = x + 5
    x.fill_(1)
    graph.replay()
    assert y.item() == 6


def test_fallback_in_a_capture(run_python):
    code = (
        "import torch, habana_frameworks.torch\n"
        "x = torch.ones(3, 3, device='hpu'); x.tril()\n"
        "with torch.hpu.graph(torch.hpu.HPUGraph()): x.tril()"
    )
    done = run_python(code, HPU_REFERENCE_FALLBACK_OPS="tril")
    assert "cpu fallback is not supported during hpu graph capturing" in done.stderr.splitlines()[-1]


def test_reading_a_value_in_a_capture():
    with pytest.raises(RuntimeError, match=r"captur"), hpu.graph(hpu.HPUGraph()):
        torch.ones(1, device="hpu").add(1).item()
    assert (torch.ones(1, device="hpu") + 1).item() == 2


def test_error_in_a_capture_propagates_and_ends_the_capture():
    graph = hpu.HPUGraph()
    with pytest.raises(ZeroDivisionError), hpu.graph(graph):
        raise ZeroDivisionError
    assert not hpu.is_current_stream_capturing()
    with hpu.graph(graph):
        y = torch.ones(1, device="hpu") + 1
    graph.replay()
    assert y.item() == 2


def test_is_current_stream_capturing():
    assert hpu.is_current_stream_capturing() is False
    with hpu.graph(hpu.HPUGraph()):
        assert hpu.is_current_stream_capturing() is True


def test_stream_of_the_capture():
    stream = hpu.Stream()
    with hpu.graph(hpu.HPUGraph(), stream=stream):
        assert hpu.current_stream() == stream
    assert hpu.current_stream() == hpu.default_stream()
    with hpu.graph(hpu.HPUGraph()):
        assert hpu.current_stream() != hpu.default_stream()


def test_capture_disables_dynamic_shapes():
    hpu.enable_dynamic_shape()
    _capture_graph(lambda: torch.ones(1, device="hpu") + 1)
    assert hpu.get_dynamic_shape_status() is False


def test_memory_of_a_graph_is_freed():
    before = hpu.memory_allocated()

    def make_graph():
        x = torch.ones(1 << 16, device="hpu")
        return _capture_graph(lambda: (x + 1) * 2)[0]

    graph = make_graph()
    graph.replay()
    del graph
    hpu.synchronize()
    assert hpu.memory_allocated() == before


def test_replay_from_another_thread():
    x = torch.zeros(2, device="hpu")
    graph, y = _capture_graph(lambda: x + 1)
    x.fill_(8)
    thread = threading.Thread(target=graph.replay)
    thread.start()
    thread.join()
    hpu.synchronize()
    assert y.tolist() == [9, 9]


def test_graphs_are_dumped_on_request(output_of, tmp_path):
    code = (
        "import torch, habana_frameworks.torch\n"
        "x = torch.ones(3, device='hpu')\n"
        "with torch.hpu.graph(torch.hpu.HPUGraph()): y = (x * 2).relu()"
    )
    output_of(code, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
    output_of(code, cwd=tmp_path, PT_HPU_DUMP_IR_DOT_GRAPH="1", PT_HPU_GRAPH_DUMP_PREFIX="dots")
    (dot,) = (tmp_path / "dots").glob("*.dot")  # Graphviz, if installed, adds an image
    assert dot.read_text().lstrip().startswith("digraph")
    output_of(code, cwd=tmp_path, GRAPH_VISUALIZATION="1")
    files = {path.suffix: path.read_text() for path in (tmp_path / ".graph_dumps").iterdir()}
    assert set(files) - {".svg"} == {".txt", ".dot"}
    assert all("relu" in text for text in files.values())
    output_of(code, cwd=tmp_path, PT_HPU_GRAPH_DUMP_MODE="compile", PT_HPU_GRAPH_DUMP_PREFIX="none")
    assert not (tmp_path / "none").exists()


def test_accelerator_graph():
    if not hasattr(torch.accelerator, "Graph"):
        pytest.skip("torch.accelerator.Graph is newer than this torch")
    x = torch.zeros(2, device="hpu")
    graph = torch.accelerator.Graph()
    with torch.Stream(device="hpu"), graph:
        x += 1
    graph.replay()
    torch.accelerator.synchronize()
    assert x.tolist() == [2, 2]


def test_a_call_that_warns_can_be_captured():
    x = torch.ones(1, device="hpu")
    with pytest.warns(UserWarning, match="degrees of freedom"):
        graph, y = _capture_graph(lambda: x.var() + 1)
    graph.replay()
    assert torch.isnan(y).item()


def test_call_with_explicit_output_size_can_be_captured():
    x, times = torch.arange(2.0, device="hpu"), torch.tensor([2, 4], device="hpu")
    graph, y = _capture_graph(lambda: torch.repeat_interleave(x, times, output_size=6))
    times.copy_(torch.tensor([5, 1]))
    graph.replay()
    assert y.tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(RuntimeError, match="the size of its result depends on the data"):
        _capture_graph(lambda: torch.repeat_interleave(x, times))
