"""Fine-tuning with two chains for two groups: a trained body goes on by clipped steps with momentum, its new head learns by Adam."""
import torch

import gradus.torch


def rings(n=400, classes=2, seed=0):
    """Rings around the origin, one a class."""
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % classes
    radius = 1 + label + 0.1 * torch.randn(n, generator=g)
    angle = 2 * torch.pi * torch.rand(n, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label


class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh())
        self.head = torch.nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(net, optimizer, x, y, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return (net(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(1)
    net = Net(2)
    before = train(net, gradus.torch.Optimizer(net, "adam | lr(1e-2)"), *rings(), 200)
    print(f"two rings: {100 * before:.1f} % right")

    # a third ring: another head, and each part by its own chain and learning rate
    net.head = torch.nn.Linear(32, 3)
    groups = [{"params": list(net.body.named_parameters(prefix="body")), "lr": 1e-3},
              {"params": list(net.head.named_parameters(prefix="head")), "lr": 1e-2}]
    tuner = gradus.torch.Optimizer(groups, 'split("body.*", [clip_norm(1) | nag(0.9)], [adam | weight_decay(1e-3)]) | lr(1)')
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(tuner, 300)
    x, y = rings(classes=3, seed=1)
    for _ in range(300):
        right = train(net, tuner, x, y, 1)
        slower.step()
    print(tuner)
    for name, group in zip(("body", "head"), tuner.param_groups):
        kept = sorted({key for p in group["params"] for key in tuner.state[p]} - {"step"})
        print(f"{name}: lr {group['initial_lr']:g} -> {group['lr']:g}, keeps {', '.join(kept)}")
    print(f"three rings: {100 * right:.1f} % right")
    return before, right, tuner


if __name__ == "__main__":
    main()
