"""Test the exit of processes that have used the device."""


def test_an_early_exit_after_backward_is_clean(python):
    script = "torch.ones(3, device='hpu', requires_grad=True).sum().backward()\nraise SystemExit(3)"
    assert [python(script).returncode for _ in range(4)] == [3] * 4
