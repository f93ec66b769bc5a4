"""Links of one's own: a rule that the library compiles and fuses, and a link that works on tensors."""
import gradus as gd
from gradus import m


@gd.rule(state=["average"])
def signed_average(r, update, beta=0.9):
    """The sign of an average of updates, as Lion takes it."""
    return r.sign(r.average("average", update, beta))


@gd.link
class centre:
    """Subtracts its mean from the update of each matrix."""

    def apply(self, t):
        return [u - u.mean() if u.ndim > 1 else u * 1 for u in t.tensors]


def main():
    gd.seed(1)
    a, b = gd.randn((30, 4)), gd.randn((30, 3))
    w = gd.zeros((4, 3)).require_grad()
    optimizer = gd.Optimizer([w], centre() | signed_average(beta=0.8) | m.lr("linear(0.05, 0, 200)"))
    losses = [optimizer.step(lambda: ((a @ w - b) ** 2).mean()) for _ in range(200)]
    print(optimizer)
    print(optimizer.explain())
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
