"""What once went wrong, or could: half-made tensors, memory that outlives a kernel, state to restore."""

import copy
import gc
import pickle

import pytest
import torch
from habana_frameworks.torch import _C


@pytest.fixture
def no_memory():
    gc.collect()
    before = _C.memory_stats()["Limit"]
    yield lambda: _C.set_memory_limit(_C.memory_stats()["InUse"] + 1024)
    _C.set_memory_limit(before)


@pytest.mark.parametrize(
    "grow",
    [
        lambda out: torch.add(torch.ones(1, device="hpu").expand(1 << 16), 1, out=out),
        lambda out: out.resize_(1 << 30),
        lambda out: out.set_(out.untyped_storage(), 0, (1 << 30,), (1,)),
        lambda out: out.untyped_storage().resize_(1 << 30),
    ],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_a_failed_resize_keeps_the_tensor(no_memory, grow):
    out = torch.full((4,), 3.0, device="hpu")
    neighbours = [torch.zeros(16, device="hpu") for _ in range(20)]
    no_memory()
    with pytest.raises(torch.OutOfMemoryError):
        grow(out)
    assert out.shape == (4,) and out.untyped_storage().nbytes() == 16
    out.fill_(7.0)
    assert out.tolist() == [7.0] * 4 and all(not n.any().item() for n in neighbours)


@pytest.mark.parametrize("bytes_left", [0, 64])
def test_a_tensor_beyond_its_storage_is_refused(bytes_left):
    tensor = torch.ones(1000, device="hpu")
    neighbours = [torch.zeros(16, device="hpu") for _ in range(40)]
    tensor.untyped_storage().resize_(bytes_left)
    for use in (lambda: tensor.fill_(7.0), lambda: tensor + 1, lambda: tensor.cpu(), lambda: tensor.sum()):
        with pytest.raises(RuntimeError, match=f"spans 4000 bytes of a storage that has {bytes_left}"):
            use()
    assert all(not n.any().item() for n in neighbours)
    tensor.untyped_storage().resize_(4000)  # as sharded parameters do
    assert tensor.fill_(2.0).sum().item() == 2000


def test_a_slice_of_a_storage_does_not_grow():
    storage = torch.arange(8, dtype=torch.uint8, device="hpu").untyped_storage()
    part = storage[0:4]
    with pytest.raises(RuntimeError, match="not resizable"):
        part.resize_(100)
    assert list(part.cpu()) == [0, 1, 2, 3]


def test_metadata_of_nested_results_is_not_device_memory():
    nested = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)], device="hpu")
    product = torch.bmm(nested, nested.transpose(1, 2))
    assert _C.extended_memory_stats()["scratch"] == 0
    assert product._nested_tensor_storage_offsets().device.type == "cpu"
    assert [part.shape for part in product.unbind()] == [(2, 2), (4, 4)]


def test_nested_metadata_outlives_the_device_tensor_it_came_from():
    shapes = torch.tensor([[2, 3], [4, 3]], device="hpu")
    nested = torch._nested_from_padded(torch.ones(2, 4, 3, device="hpu"), shapes)
    del shapes
    junk = [torch.full((2, 2), 10**9, device="hpu") for _ in range(8)]
    assert [part.shape for part in nested.unbind()] == [(2, 3), (4, 3)] and junk


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_bits_that_a_kernel_sets_on_out_arrive(left, adjoint):
    generator = torch.Generator().manual_seed(0)
    matrix, right = (torch.randn(2, 2, dtype=torch.complex64, generator=generator) for _ in range(2))
    found = []
    for device in ("cpu", "hpu"):
        factor, pivots = torch.linalg.lu_factor(matrix.to(device))
        out = torch.empty(2, 2, dtype=torch.complex64, device=device)
        torch.linalg.lu_solve(factor, pivots, right.to(device), left=left, adjoint=adjoint, out=out)
        found.append(out.cpu())
    assert torch.allclose(*found)


def test_batch_sizes_on_the_device_are_refused():
    lstm = torch.nn.LSTM(3, 4).to("hpu")
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3, device="hpu"), torch.tensor([5, 3]))
    lstm(packed)[0].data.sum().backward()
    assert lstm.weight_ih_l0.grad.shape == (16, 3)
    state = torch.zeros(1, 2, 4, device="hpu")
    sizes = packed.batch_sizes.to("hpu")
    with pytest.raises(RuntimeError, match="batch_sizes of a packed sequence must be a CPU tensor"):
        torch.lstm(packed.data, sizes, (state, state), lstm._flat_weights, True, 1, 0.0, True, False)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_restores_the_generator(python, use_reentrant):
    script = f"""
seen = []
def forward(x):
    result = torch.nn.functional.dropout(x, 0.5)
    seen.append(result.detach())
    return result * result
x = torch.ones(8, 8, device='hpu', requires_grad=True)  # no random operator before
y = torch.utils.checkpoint.checkpoint(forward, x, use_reentrant={use_reentrant})
y.sin().sum().backward()
assert torch.equal(seen[0].ne(0), seen[1].ne(0))
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


def test_an_early_exit_after_backward_is_clean(python):
    script = "torch.ones(3, device='hpu', requires_grad=True).sum().backward()\nraise SystemExit(3)"
    assert [python(script).returncode for _ in range(4)] == [3] * 4


def test_generators_travel():
    generator = torch.Generator("hpu").manual_seed(4)
    torch.rand(3, device="hpu", generator=generator)
    for twin in (pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        state = generator.get_state()
        assert torch.rand(5, device="hpu", generator=twin).equal(
            torch.rand(5, device="hpu", generator=generator)
        )
        generator.set_state(state)


def test_sparse_gradients_train():
    embedding = torch.nn.Embedding(10, 3, sparse=True).to("hpu")
    before = embedding.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 2], device="hpu")).sum().backward()
    optimizer.step()
    changed = (embedding.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert changed == [1, 2]


def test_bytes_swap_on_the_host():
    storage = torch.tensor([1.0], device="hpu").untyped_storage()
    storage.byteswap(torch.float32)
    assert list(storage.cpu()) == [0x3F, 0x80, 0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch._sobol_engine_ff_(
            torch.zeros(4, dtype=torch.long, device="hpu"),
            5,
            torch.ones(4, 30, dtype=torch.long, device="hpu"),
            4,
            0,
        ),
        lambda: torch.choose_qparams_optimized(torch.randn(4, 4, device="hpu"), 4, 5, 0.1, 8),
        lambda: torch.kaiser_window(4, device="hpu"),
        lambda: torch.ops.aten._reshape_from_tensor(
            torch.ones(4, device="hpu"), torch.tensor([2, 2], device="hpu")
        ),
        lambda: torch.range(1, 3, device="hpu"),
    ],
)
def test_composites_that_touch_memory_on_the_host_do_not_fault(call):
    assert call() is not None


def test_indices_may_be_on_the_host_and_nothing_else():
    host, index = torch.arange(4.0), torch.tensor([1], device="hpu")
    with pytest.raises((RuntimeError, IndexError)):
        host.index_put_((index,), torch.ones(1, device="hpu"))
    with pytest.raises((RuntimeError, IndexError)):
        host[index]
    dev = torch.arange(4.0, device="hpu")
    with pytest.raises(RuntimeError):
        dev.index_put_((index,), torch.ones(1))
    assert host.tolist() == dev.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_packed_weights_keep_what_they_were_made_of():
    weight = torch.quantize_per_tensor(torch.ones(4, 4, device="hpu"), 0.1, 0, torch.qint8)
    bias = torch.full((4,), 3.0, device="hpu")
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    del weight, bias
    junk = [torch.full((4,), 99.0, device="hpu") for _ in range(8)]
    assert torch.ops.quantized.linear_unpack(packed)[1].tolist() == [3.0] * 4 and junk


def test_quantized_tensors_travel():
    made = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
    dev = made.to("hpu")
    assert dev.device.type == "hpu" and dev.int_repr().tolist() == [[10, 10], [10, 10]]
    assert copy.deepcopy(dev).dequantize().tolist() == dev.dequantize().tolist()


PINNED_FORK = """
import os, threading
kept = torch.ones(10).pin_memory(); x = torch.ones(3, device='hpu'); stop = False
def work():
    while not stop:
        torch.ones(1000).pin_memory()
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        kept.is_pinned(); os._exit(0)
    os.waitpid(pid, 0)
stop = True
[t.join() for t in threads]
"""


def test_a_fork_beside_a_pinning_thread_does_not_hang(python):
    assert python(PINNED_FORK).returncode == 0


def test_many_tensors_in_one_call():
    tensors = [torch.full((1,), float(i), device="hpu") for i in range(500)]
    torch._foreach_add_(tensors, 1.0)
    assert torch.cat(tensors).tolist() == [i + 1.0 for i in range(500)]
    assert torch.cat([tensors[0]] * 100 + tensors).shape == (600,)


@pytest.mark.parametrize("median", [torch.median, torch.nanmedian])
def test_the_median_of_an_expanded_input(median):
    row = torch.randn(5, device="hpu")
    assert median(row.expand(5, 5), 0).values.equal(row)
