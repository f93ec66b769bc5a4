"""Links of the reference's kind over parameters of PyTorch: see reference_links.py."""
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus.torch as gt
import reference_classes
import reference_links


class World(reference_links.World):
    def parameter(self, values):
        return torch.nn.Parameter(torch.tensor(values))

    def optimizer(self, params, chain):
        return gt.Optimizer(params, chain)


@pytest.mark.parametrize("check", [*reference_links.CHECKS, *reference_classes.CHECKS], ids=lambda f: f.__name__)
def test_what_the_reference_says(check):
    check(World())
