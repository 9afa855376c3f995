"""Bad input: the error type torch users expect, one sentence, and the next call works."""

import pytest
import torch

SAME_DEVICE = "Expected all tensors to be on the same device, but found at least two devices, hpu:0 and cpu!"


@pytest.mark.parametrize(
    "call",
    [
        lambda h, c: h + c,
        lambda h, c: c + h,
        lambda h, c: torch.mm(h, c),
        lambda h, c: torch.cat([h, c]),
        lambda h, c: torch.where(h > 0, h, c),
        lambda h, c: h.add_(c),
        lambda h, c: torch.add(h, h, out=c),
        lambda h, c: torch.nn.functional.linear(h, c),
    ],
)
def test_host_and_device_tensors_do_not_mix(call):
    h, c = torch.ones(2, 2, device="hpu"), torch.ones(2, 2)
    with pytest.raises(RuntimeError) as caught:
        call(h, c)
    assert SAME_DEVICE in str(caught.value)
    assert h.tolist() == c.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_host_result_tensor_is_never_written():
    target = torch.zeros(())
    with pytest.raises(RuntimeError, match="same device"):
        target.add_(torch.ones((), device="hpu"))
    assert target.item() == 0


def test_host_scalars_and_host_indices_are_allowed():
    a = torch.arange(4.0, device="hpu")
    assert (a + torch.tensor(1.5)).tolist() == [1.5, 2.5, 3.5, 4.5]
    assert (torch.tensor(2) * a).device.type == "hpu"
    assert a[torch.tensor([0, 2])].tolist() == [0.0, 2.0]
    a[torch.tensor([1])] = 9.0
    assert a[1].item() == 9


def test_index_rules():
    assert torch.empty(1, device="hpu").device == torch.device("hpu:0")
    with pytest.raises(RuntimeError, match="hpu:99 is not a device of this machine"):
        torch.empty(1, device="hpu:99")
    with pytest.raises(RuntimeError, match="not a device of this machine"):
        torch.ones(1).to("hpu:8")


def test_other_indices_warn_once_and_mean_0(python):
    script = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    a = torch.empty(1, device='hpu:3'); b = torch.empty(1, device='hpu:2')\n"
        "print(a.device, b.device, len([w for w in seen if 'means hpu:0' in str(w.message)]))"
    )
    assert python(script).stdout.split() == ["hpu:0", "hpu:0", "1"]


@pytest.mark.parametrize(
    "modules, count", [("0", "1"), ("2,5", "2"), ("0 ,1", "2"), ("", "8"), ("9", "0"), ("a", "0")]
)
def test_visible_modules(python, modules, count):
    assert python("print(torch.hpu.device_count())", HABANA_VISIBLE_MODULES=modules).stdout.strip() == count


def test_no_visible_module_is_one_sentence(python):
    done = python("print(torch.hpu.is_available())\ntorch.empty(1, device='hpu')", HABANA_VISIBLE_MODULES="9")
    assert done.stdout.strip() == "False"
    assert done.stderr.strip().splitlines()[-1].startswith("RuntimeError: no hpu device is visible")


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda a: a.reshape(5, 5), RuntimeError),
        (lambda a: a[10], IndexError),
        (lambda a: a @ torch.ones(7, device="hpu"), RuntimeError),
        (lambda a: torch.cholesky_inverse(a.int()), RuntimeError),
        (lambda a: a.bitwise_and(a), RuntimeError),
        (lambda a: torch.empty(-1, device="hpu"), RuntimeError),
        (lambda a: a.view(torch.complex128), RuntimeError),
        (lambda a: torch.gather(a, 0, torch.full((2, 2), 99, device="hpu")), RuntimeError),
        (lambda a: torch.nn.functional.embedding(torch.tensor([77], device="hpu"), a), IndexError),
        (lambda a: torch.empty(2, device="hpu", pin_memory=True), RuntimeError),
        (lambda a: a.numpy(), TypeError),
        (lambda a: a.add_(torch.ones(3, 3, device="hpu")), RuntimeError),
        (lambda a: torch.linalg.inv(torch.zeros(2, 2, device="hpu")), torch.linalg.LinAlgError),
        (lambda a: a.to_mkldnn(), RuntimeError),
        (lambda a: torch.rand(2, device="hpu", generator=torch.Generator()), RuntimeError),
        (lambda a: torch.rand(2, generator=torch.Generator("hpu")), RuntimeError),
    ],
)
def test_bad_input(call, error):
    a = torch.ones(2, 2, device="hpu")
    with pytest.raises(error) as caught:
        call(a)
    assert "INTERNAL ASSERT" not in str(caught.value)
    assert a.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_fake_tensors_are_refused_by_the_kernels_and_served_by_their_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        a = torch.empty(2, 3, device="hpu")
        assert a.device.type == "hpu" and (a @ a.t()).shape == (2, 2)
        query = torch.empty(1, 2, 4, 8, device="hpu")
        assert torch.nn.functional.scaled_dot_product_attention(query, query, query).shape == (1, 2, 4, 8)
        real = mode.from_tensor(torch.ones(2, device="hpu"))
        assert real.device.type == "hpu"
