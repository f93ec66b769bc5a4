"""Labelled tensors in a module, a buffer, a virtual tensor, and an optimizer over all of it.

A straight line through labelled points: slope and offset are parameters, the scale of the residuals is a buffer, and the
line's values at the points are a virtual tensor, computed anew whenever they are read."""
import gradus as gd


@gd.no_grad_tensors("scale")
class Line(gd.Module):
    def __init__(self, x):
        super().__init__()
        self.x = x
        self.slope = gd.tensor(0.0, requires_grad=True)
        self.offset = gd.tensor(0.0, requires_grad=True)
        self.scale = gd.tensor(0.5)
        gd.VirtualTensor.create(self, "values", "evaluate", dtype="f64")

    def evaluate(self, dtype, device):
        return self.slope * self.x + self.offset


@gd.register(Line, gd.Tensor)
def misfit(line, y):
    return (((line.values - y) / line.scale) ** 2).sum()


def main():
    points = ["mon", "tue", "wed", "thu"]
    x = gd.tensor([0.0, 1.0, 2.0, 3.0], axes="day", labels={"day": points})
    y = gd.tensor([1.1, 2.9, 5.2, 6.8], axes="day", labels={"day": points})
    line = Line(x)
    line.x.requires_grad = False
    optimizer = gd.Optimizer(line, "lbfgs | strong_wolfe")
    for _ in range(10):
        loss = optimizer.step(lambda: line(y))
    print(line)
    print(f"slope {line.slope.item():.4f}, offset {line.offset.item():.4f}, misfit {loss:.4f}")
    print(f"wednesday: {line.values['wed'].item():.4f}, measured {y['wed'].item()}")
    return line.export("slope").item(), line.export("offset").item()


if __name__ == "__main__":
    main()
