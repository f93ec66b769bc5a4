"""torch_mlp.py [THREADS]: median time in microseconds of forward and backward of a 784-256-10 network, batch 128, f32."""
import statistics
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.manual_seed(0)
x = torch.rand(128, 784)
labels = torch.arange(128) * 7 % 10
w1 = (torch.randn(256, 784) * 0.05).requires_grad_()
b1 = torch.zeros(256, requires_grad=True)
w2 = (torch.randn(10, 256) * 0.05).requires_grad_()
b2 = torch.zeros(10, requires_grad=True)


def step():
    hidden = torch.relu(torch.nn.functional.linear(x, w1, b1))
    loss = torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, w2, b2), labels)
    loss.backward()
    for p in (w1, b1, w2, b2):
        p.grad = None


for _ in range(50):
    step()
times = []
for _ in range(15):
    start = time.perf_counter()
    for _ in range(50):
        step()
    times.append((time.perf_counter() - start) / 50)
print(f"{statistics.median(times) * 1e6:.1f}  PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
