"""Test the tool that finds modules whose input shapes change."""

from __future__ import annotations

import csv
import pathlib

import pytest
import torch
from habana_frameworks.torch.utils.experimental import detect_recompilation


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.act = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return self.act(x[x[:, 0] < 0])


def test_modules_whose_shapes_change_are_counted(tmp_path: pathlib.Path) -> None:
    model = Model().to("hpu")
    with torch.no_grad():
        model.layer.weight.fill_(1.0)
        model.layer.bias.zero_()
    net = detect_recompilation.detect_recompilation_auto_model(model, "Net", csv_out=str(tmp_path / "out"))
    assert net is model
    for rows in ([1, -1], [-1, -1], [1, -1], [1, 1, -1]):
        net(torch.tensor(rows, dtype=torch.float32, device="hpu").unsqueeze(1).expand(-1, 3))
    net.analyse_dynamicity()
    counts = {row["Module name"]: int(row["Recompile count"]) for row in read_csv(tmp_path / "out_2.csv")}
    assert counts == {"Net": 2, "Net.layer": 1, "Net.act": 1}
    details = read_csv(tmp_path / "out_1.csv")
    assert [row["Comment"][:8] for row in details if row["Module"] == "Net"] == [
        "first ca",
        "differen",
        "new inpu",
    ]


def read_csv(path: pathlib.Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_shapes_of_batches_are_counted_and_padded(capsys: pytest.CaptureFixture[str]) -> None:
    batches = [
        {"x": torch.zeros(2, 3), "n": 1},
        {"x": torch.zeros(2, 5), "n": 2},
        {"x": torch.zeros(2, 3), "n": 3},
    ]
    counts = detect_recompilation.data_dynamicity(batches)
    assert (
        sorted(counts.values()) == [1, 2] and "3 batches have 2 different shapes" in capsys.readouterr().out
    )
    padded = list(detect_recompilation.const_shape_dataloader(batches, 5))
    assert {tuple(batch["x"].shape) for batch in padded} == {(2, 5)} and [batch["n"] for batch in padded] == [
        1,
        2,
        3,
    ]
    with pytest.raises(ValueError, match="length 5, but maxlen is 4"):
        list(detect_recompilation.const_shape_dataloader(batches, 4))
