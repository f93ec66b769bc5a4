"""gradus.torch inside programs that train: each is tried where it is installed."""
import importlib.util
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus.torch as gt

CHAIN = 'clip_norm(1) | adam(eps_at="corrected") | lr(1e-2)'


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def table():
    g = torch.Generator().manual_seed(0)
    return torch.utils.data.TensorDataset(torch.randn(32, 4, generator=g), torch.randn(32, 1, generator=g))


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def by_hand(epochs, model=None):
    model = model or net()
    optimizer = gt.Optimizer(model.parameters(), CHAIN)
    for _ in range(epochs):
        for x, y in torch.utils.data.DataLoader(table(), 8):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    return weights(model)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b))


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = net()
    optimizer = gt.Optimizer(model.parameters(), CHAIN)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(table(), 8), scheduler)
    for epoch in range(2):
        if epoch == 1:
            accelerator.save_state(str(tmp_path))
            with torch.no_grad():
                for p in model.parameters():
                    p.zero_()
            accelerator.load_state(str(tmp_path))
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            scheduler.step()
    assert same(weights(model), by_hand(2))


def test_lightning_goes_on_from_its_checkpoint(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, number):
            x, y = batch
            return torch.nn.functional.mse_loss(self.net(x), y)

        def configure_optimizers(self):
            return gt.Optimizer(self.parameters(), CHAIN)

    def trainer(epochs, **more):
        return lightning.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                 enable_model_summary=False, default_root_dir=str(tmp_path), **more)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = torch.utils.data.DataLoader(table(), 8)
        first = Model()
        run = trainer(2)
        run.fit(first, loader)
        run.save_checkpoint(str(tmp_path / "saved.ckpt"))
        again = Model()
        trainer(4).fit(again, loader, ckpt_path=str(tmp_path / "saved.ckpt"))
        averaged = Model()
        trainer(4, callbacks=[lightning.pytorch.callbacks.StochasticWeightAveraging(1e-2, swa_epoch_start=1)]).fit(averaged, loader)
    assert same(weights(first), by_hand(2)) and same(weights(again), by_hand(4))
    assert all(p.isfinite().all() for p in weights(averaged)) and not same(weights(averaged), by_hand(4))


def test_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x, labels):
            out = self.net(x)
            return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}

    rows = [{"x": x, "labels": y} for x, y in table()]
    given = dict(output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=8, report_to=[], use_cpu=True, save_strategy="no",
                 max_grad_norm=0, lr_scheduler_type="constant", disable_tqdm=True, seed=3)
    results = []
    for way in ("object", "class"):
        model = Model()
        how = {"optimizers": (gt.Optimizer(model.parameters(), CHAIN), None)} if way == "object" else {
            "optimizer_cls_and_kwargs": (gt.Optimizer, {"chain": CHAIN, "lr": 1e-2})}
        transformers.Trainer(model, transformers.TrainingArguments(**given), train_dataset=rows, **how).train()
        results.append(weights(model))
    assert same(*results) and not same(results[0], weights(Model()))


FOLDER = Path(__file__).resolve().parents[3] / "examples" / "python"


def run_example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main()


def example_torch_classifier(capsys):
    first, second = run_example("torch_classifier")
    assert first > 0.98 and second > 0.95 and "6 parameters" in capsys.readouterr().out


def example_torch_finetuning(capsys):
    before, after, tuner = run_example("torch_finetuning")
    assert before > 0.98 and after > 0.95
    body, head = (tuner.state[group["params"][0]] for group in tuner.param_groups)
    assert "velocity" in body and "exp_avg_sq" not in body and "exp_avg_sq" in head  # a chain each
    assert [group["initial_lr"] for group in tuner.param_groups] == [1e-3, 1e-2] and "keeps exp_avg" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("torch*.py")))
def test_examples_run_and_find_what_they_should(name, capsys):
    globals()[f"example_{name}"](capsys)


def test_averages_of_weights():
    from torch.optim.swa_utils import SWALR, AveragedModel

    model = net()
    averaged, optimizer = AveragedModel(model), gt.Optimizer(model.parameters(), CHAIN)
    scheduler = SWALR(optimizer, 1e-3)
    for x, y in torch.utils.data.DataLoader(table(), 8):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        averaged.update_parameters(model)
        scheduler.step()
    assert not same(weights(model), weights(averaged.module))
