"""A classifier of PyTorch, trained by a chain; then fine-tuned with one chain for its matrices and another for the rest."""
import torch

import gradus.torch


def spirals(n=300, seed=0):
    """Two spirals, one a class."""
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(n, generator=g) * 3 + 0.5
    side = (torch.arange(n) % 2).float()
    angle = 3 * t + side * torch.pi
    x = torch.stack([t * angle.cos(), t * angle.sin()], 1) + 0.05 * torch.randn(n, 2, generator=g)
    return x, side.long()


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))


def accuracy(net, x, y):
    return (net(x).argmax(1) == y).float().mean().item()


def main():
    x, y = spirals()
    net = model()
    optimizer = gradus.torch.Optimizer(net.parameters(), "clip_norm(1) | adam | weight_decay(1e-4) | lr(1e-2)")
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=400)
    for _ in range(400):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
    first = accuracy(net, x, y)
    print(f"loss {loss.item():.4f}, {100 * first:.1f} % right")

    # other points: matrices by orthogonal steps, biases by adam, both behind one learning rate
    x, y = spirals(seed=1)
    tuner = gradus.torch.Optimizer(net.named_parameters(), 'split("axes>=2", [nag(0.95) | orthogonalize], adam) | lr(2e-3)')
    for _ in range(50):
        tuner.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        tuner.step()
    second = accuracy(net, x, y)
    print(tuner)
    print(f"loss {loss.item():.4f}, {100 * second:.1f} % right")
    return first, second


if __name__ == "__main__":
    main()
