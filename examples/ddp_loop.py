"""The loop of own_loop.py on several processes: what is marked with (+) is all that recording adds.

torchrun --nproc-per-node=2 examples/ddp_loop.py runs/ddp-loop
torchrun --nproc-per-node=2 examples/ddp_loop.py runs/fsdp-loop --shard
depthscope serve runs

Every rank makes a recorder, after init_process_group and after the model is wrapped; rank 0 writes one run of the
whole batch.
"""

import argparse

import torch
import torch.distributed as dist
from own_loop import SmallTransformer, batches
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import depthscope  # (+)


def distributed(model: nn.Module, shard: bool) -> nn.Module:
    """Wrap the model for data parallelism: copies (DDP), or sharded parameters (FSDP2)."""
    if not shard:
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", help="folder of the run")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--shard", action="store_true", help="fully_shard instead of DistributedDataParallel")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = distributed(SmallTransformer(), options.shard)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = depthscope.Recorder(  # (+)
        model,  # (+)
        options.path,  # (+)
        optimizer=optimizer,  # (+)
        every=2,  # (+)
        config={"steps": options.steps, "ranks": dist.get_world_size()},  # (+)
    )  # (+)
    for inputs, targets in batches(options.steps):
        # Each rank its own part of the batch.
        inputs, targets = (part.chunk(dist.get_world_size())[dist.get_rank()] for part in (inputs, targets))
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recorder.step(loss=loss, grad_norm=norm, max_norm=1.0)  # (+)
    recorder.close()  # (+)
    if dist.get_rank() == 0:
        print(recorder.report())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
