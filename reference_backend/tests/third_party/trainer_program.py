"""Train a small language model with the Trainer of transformers or of optimum-habana.

    python trainer_program.py --output FOLDER [--steps N] [--batch N] [--bf16] [--compile] [--cpu]
                              [--save-at N] [--resume] [--gaudi]

The training data are sequences that follow a rule, so that the model can learn. Rank 0 writes ``losses.json``
to the folder: the device, the number of ranks, and the loss of each step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

WORDS = 32
VOCABULARY = 64


class Sequences(torch.utils.data.Dataset):
    """Token sequences in which each token is the previous one plus a fixed step, modulo the vocabulary."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (index * 7 + torch.arange(WORDS) * (1 + index % 5)) % VOCABULARY
        return {"input_ids": tokens, "labels": tokens}


def optimum_trainer() -> tuple[type, type, dict[str, Any]]:
    """Return the trainer class and arguments class of optimum-habana, and the extra arguments for both.

    The extra arguments select the device's fused optimizer and gradient clipping.
    """
    from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments

    config = GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True)
    arguments = {"use_habana": True, "use_lazy_mode": False}
    return GaudiTrainer, GaudiTrainingArguments, {"arguments": arguments, "trainer": {"gaudi_config": config}}


def main() -> None:
    """Train, and write the losses."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--save-at", type=int)
    for switch in ("bf16", "compile", "cpu", "resume", "gaudi"):
        parser.add_argument(f"--{switch}", action="store_true")
    options = parser.parse_args()
    set_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=WORDS, n_embd=32, n_layer=2, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    trainer_class, arguments_class, extra_arguments = (
        optimum_trainer() if options.gaudi else (Trainer, TrainingArguments, {})
    )
    arguments = arguments_class(
        str(options.output),
        per_device_train_batch_size=options.batch,
        max_steps=options.steps,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no" if options.save_at is None else "steps",
        save_steps=options.save_at or options.steps,
        bf16=options.bf16,
        torch_compile=options.compile,
        optim="adamw_torch",
        **({} if options.gaudi else {"use_cpu": options.cpu}),
        report_to=[],
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
        **extra_arguments.get("arguments", {}),
    )
    model = GPT2LMHeadModel(config)
    trainer = trainer_class(
        model, args=arguments, train_dataset=Sequences(), **extra_arguments.get("trainer", {})
    )
    trainer.train(resume_from_checkpoint=options.resume or None)
    if arguments.process_index == 0:
        history = [entry for entry in trainer.state.log_history if "loss" in entry]
        report = {
            "device": arguments.device.type,
            "ranks": arguments.world_size,
            "losses": {entry["step"]: float(entry["loss"]) for entry in history},
        }
        (options.output / "losses.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
