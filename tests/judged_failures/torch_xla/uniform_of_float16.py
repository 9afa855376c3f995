"""On XLA, uniform_ of float16 works. It fails only while a tensor is alive whose earlier uniform_ could not
be compiled, such as a bool tensor. While such a tensor is alive, every wait for the device fails. The CPU,
too, rejects uniform_ of bool and float8, so the earlier call is wrong, and float16 is not at fault. No page
fixes the text of an error.
"""

import functools

import torch
import torch_xla


def outcome_of_call(make):
    """Return the outcome of a call and a wait, as text."""
    try:
        result = make()
        torch_xla.sync(wait=True)
        return f"works, {result.dtype}"
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:100]}"


def make_uniform_call(dtype):
    """Return a function that draws ten numbers of a dtype on XLA."""
    return lambda: torch.zeros(10, dtype=dtype).to("xla").uniform_(-100, 100)


first = outcome_of_call(make_uniform_call(torch.float16))
failed = torch.zeros(10, dtype=torch.bool).to("xla")
refusal = outcome_of_call(functools.partial(failed.uniform_, -100, 100))
after = outcome_of_call(make_uniform_call(torch.float16))
other = outcome_of_call(lambda: torch.ones(3).to("xla") + 1)
del failed
last = outcome_of_call(make_uniform_call(torch.float16))
print("float16 at first:", first)
print("bool:", refusal)
print("float16 while the bool tensor lives:", after)
print("an addition of float32 while the bool tensor lives:", other)
print("float16 after its end:", last)
for dtype in (torch.bool, torch.float8_e4m3fn):
    try:
        torch.zeros(10).to(dtype).uniform_(-100, 100)
        print(dtype, "CPU: works")
    except Exception as error:
        print(dtype, "CPU: raises", type(error).__name__, str(error).splitlines()[0][:80])
print("float8 on XLA:", outcome_of_call(make_uniform_call(torch.float8_e4m3fn)))
alone = first.startswith("works") and last.startswith("works")
carried = after.startswith("raises") and other.startswith("raises")
reason = "float16 works; a bool tensor whose earlier call failed is still alive and makes every wait fail"
print("VERDICT:", "false" if alone and carried else "true", "-", reason)
