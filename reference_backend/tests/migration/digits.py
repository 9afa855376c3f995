"""Train on random digits by calls of `torch.cuda`, and print the losses. The test runs this file on hpu."""

import io
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda.amp import GradScaler
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.linear = nn.Linear(8 * 13 * 13, 10)

    def forward(self, images):
        return self.linear(F.max_pool2d(F.relu(self.conv(images)), 2).flatten(1))


assert torch.cuda.is_available()
assert torch.cuda.device_count() >= 1
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
torch.backends.cudnn.benchmark = True
torch.cuda.set_device(0)
device = torch.device("cuda")

classes = torch.randint(0, 10, (256,), generator=torch.Generator().manual_seed(0))
images = F.one_hot(classes * 78, 28 * 28).float().view(-1, 1, 28, 28) + torch.randn(256, 1, 28, 28) / 10
loader = DataLoader(TensorDataset(images, classes), batch_size=64, pin_memory=True)

model = Net().to(device)
if os.environ.get("DIGITS_COMPILE"):
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = GradScaler(enabled=False)
side = torch.cuda.Stream()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(10):
    total = torch.zeros((), device="cuda")
    for data, target in loader:
        data, target = data.cuda(non_blocking=True), target.to("cuda:0", non_blocking=True)
        assert data.is_cuda
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(data), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach()
    print(f"{total.item() / len(loader):.4f}")
end.record()
with torch.cuda.stream(side):
    side.wait_event(end)
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
assert torch.cuda.max_memory_allocated() > 0
torch.cuda.empty_cache()

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
state = torch.load(file, map_location="cuda")
assert all(value.is_cuda for value in state.values())
