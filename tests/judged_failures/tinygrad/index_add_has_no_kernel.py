"""On tinygrad, index_add does not work as a function, as a method or in place, for any dtype or alpha.
PyTorch's page generated/torch.Tensor.index_add_.html describes the call and limits it to no device.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

refused = []


def record_outcome_of_call(name, call, expected):
    """Make a call, and append to ``refused`` whether it is refused or returns wrong values."""
    try:
        value = call().cpu()
        print(name, "->", value.tolist(), "expected", expected.tolist())
        refused.append(not torch.equal(value, expected))
    except NotImplementedError as error:
        print(name, "->", str(error)[:75], "| CPU:", expected.tolist()[:4])
        refused.append(True)


def call_all_forms_of_index_add(dtype, size, alpha):
    """Call index_add as a function, as a method, in place, and as a function without alpha."""
    x, source, index = torch.ones(size).to(dtype), torch.ones(size).to(dtype), torch.arange(size)
    expected = torch.index_add(x, 0, index, source, alpha=alpha)
    plain = torch.index_add(x, 0, index, source)
    y, i, s = x.to("tiny"), index.to("tiny"), source.to("tiny")
    record_outcome_of_call(f"function {dtype}", lambda: torch.index_add(y, 0, i, s, alpha=alpha), expected)
    record_outcome_of_call(f"method {dtype}", lambda: y.index_add(0, i, s, alpha=alpha), expected)
    record_outcome_of_call(f"in place {dtype}", lambda: y.clone().index_add_(0, i, s, alpha=alpha), expected)
    record_outcome_of_call(f"without alpha {dtype}", lambda: torch.index_add(y, 0, i, s), plain)


for arguments in ((torch.bool, 15, True), (torch.int32, 1, -1), (torch.int8, 1, -1), (torch.float32, 1, -1)):
    call_all_forms_of_index_add(*arguments)
base, index, source = torch.zeros(4, 2), torch.tensor([3, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
record_outcome_of_call(
    "rows of a matrix",
    lambda: base.to("tiny").index_add_(0, index.to("tiny"), source.to("tiny")),
    base.clone().index_add_(0, index, source),
)
print("VERDICT:", "true" if all(refused) else "false")
