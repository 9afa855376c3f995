"""Test calls whose queue thread cannot be started, because memory for its stack is missing."""

from __future__ import annotations

import pytest

CODE = """
import resource, torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
x = torch.ones(8, device='hpu')
C.set_queue_all(0); x + 1; C.set_queue_all(-1)
hpu.synchronize()
side = hpu.Stream()

def starved(function):
    \"\"\"Run a function while a new thread finds no memory for its stack.\"\"\"
    with open('/proc/self/statm') as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), before[1]))
    try:
        function()
        message = 'no error'
    except RuntimeError as error:
        message = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    counters = C.engine_counters()
    print('cannot start a thread for its queues (' in message or message, counters['workers'], end=' ')
    print(counters['pending'], side.query())

def queued():
    C.set_queue_all(0)
    try:
        return x + 1
    finally:
        C.set_queue_all(-1)
"""
KINDS = {"wait": "C.enqueue_delay(0.0)", "operator": "queued()"}


@pytest.mark.parametrize("kind", KINDS)
def test_call_raises_and_leaves_no_pending_work(output_of, kind):
    code = CODE + (
        "with hpu.stream(side):\n"
        f"    starved(lambda: {KINDS[kind]})\n"
        f"    {KINDS[kind]}\n"
        "    print((queued() * 3).tolist() == [6.0] * 8, end=' ')\n"
        "    hpu.synchronize()\n"
        "print(C.engine_counters()['workers'] > 0, C.engine_counters()['pending'])\n"
    )
    assert output_of(code) == "True 0 0 True\nTrue True 0"
