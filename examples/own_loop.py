"""A training loop of one's own with a recorder attached: the ten lines marked with (+).

python examples/own_loop.py runs/own-loop
depthscope serve runs
"""

import argparse
import sysconfig
from pathlib import Path

import torch
from torch import Tensor, nn

import depthscope  # (+)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        heads = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads=4)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SmallTransformer(nn.Module):
    def __init__(self, width: int = 64, blocks: int = 6, context: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.place.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batches(count: int, context: int = 64, size: int = 8):
    """Yield inputs and targets [size, context]: bytes of Python's own source text."""
    text = b"".join(path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        starts = torch.randint(len(data) - context - 1, (size, 1), generator=generator)
        window = data[starts + torch.arange(context + 1)]
        yield window[:, :-1], window[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", help="folder of the run")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = SmallTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = depthscope.Recorder(  # (+)
        model,  # (+)
        options.path,  # (+)
        optimizer=optimizer,  # (+)
        every=2,  # (+)
        config={"steps": options.steps},  # (+)
    )  # (+)
    for inputs, targets in batches(options.steps):
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recorder.step(loss=loss, grad_norm=norm, max_norm=1.0)  # (+)
    recorder.close()  # (+)
    print(recorder.report())


if __name__ == "__main__":
    main()
