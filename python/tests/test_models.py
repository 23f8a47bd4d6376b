"""The models: what the authors' implementations computed, and modules as torch's are."""

import copy
import json
import os
import pathlib
import pickle
import shutil
import sys
import types

import pytest
import torch
from safetensors import safe_open

import deq
from deq import models

FIXTURES = pathlib.Path(os.environ.get("DEQ_FIXTURES", pathlib.Path(__file__).parents[2] / "tests/fixtures"))
TIGHT = deq.Broyden(memory=200, rtol=1e-14, max_evals=400, stagnation_window=60)
EXACT = dict(forward=TIGHT, gradient=deq.Implicit(solver=TIGHT))


class Fixture:
    def __init__(self, name):
        self.file = safe_open(FIXTURES / f"{name}.safetensors", "pt")
        self.config = json.loads(self.file.metadata()["config"])
        self.names = list(self.file.keys())

    def __getitem__(self, name):
        return self.file.get_tensor(name)

    def below(self, prefix):
        return {name.removeprefix(prefix): self[name] for name in self.names if name.startswith(prefix)}

    def batch_first(self, name):
        return self[name].transpose(0, 1).contiguous()


def assert_gradients(model, listed, tolerance, tied=()):
    """Within `tolerance` of the largest of all, as some vanish. What is tied is listed once for each of its names."""
    owners = dict(tied)
    expected = {}
    for name, value in listed.items():
        owner = owners.get(name, name)
        expected[owner] = expected[owner] + value if owner in expected else value
    largest = max(value.abs().max() for value in expected.values())
    for name, parameter in model.named_parameters():
        value = expected.pop(name, torch.zeros_like(parameter))
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert (gradient - value).abs().max() <= tolerance * largest, name
    assert expected == {}


@pytest.fixture
def mdeq():
    fixture = Fixture("mdeq")
    settings = fixture.config["MODEL"]
    stage = settings["EXTRA"]["FULL_STAGE"]
    model = models.MDEQ(
        channels=stage["NUM_CHANNELS"],
        blocks=stage["NUM_BLOCKS"],
        big_kernels=stage["BIG_KERNELS"],
        expansion=settings["EXPANSION_FACTOR"],
        groups=settings["NUM_GROUPS"],
        dropout=settings["DROPOUT"],
        weight_norm=settings["WNORM"],
        post_norm_affine=settings["POST_GN_AFFINE"],
        head_channels=stage["HEAD_CHANNELS"],
        final_channels=stage["FINAL_CHANSIZE"],
        classes=settings["NUM_CLASSES"],
        **EXACT,
    ).double()
    result = model.load_state_dict(fixture.below("param."), strict=False)
    assert result.unexpected_keys == []
    assert all(name.endswith("num_batches_tracked") for name in result.missing_keys)
    return model, fixture


def test_mdeq_gives_the_authors_scores(mdeq):
    model, fixture = mdeq
    with torch.no_grad():
        output = model.eval()(fixture["in.image"])
    assert output.equilibrium.report.max_relative < 1e-10
    torch.testing.assert_close(output.logits, fixture["eval.logits"], rtol=1e-10, atol=1e-10)
    for found, expected in zip(output.equilibrium.state, [fixture["eval.zstar.0"], fixture["eval.zstar.1"]]):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_mdeq_gives_the_authors_gradients(mdeq):
    model, fixture = mdeq
    loss = torch.nn.functional.cross_entropy(model.train()(fixture["in.image"]).logits, fixture["in.label"])
    torch.testing.assert_close(loss, fixture["train.loss"], rtol=1e-11, atol=0)
    loss.backward()
    assert_gradients(model, fixture.below("train.grad."), 1e-8)


@pytest.mark.parametrize(
    "make, shape",
    [
        (lambda **how: models.MDEQ(channels=[8, 8], head_channels=[2, 2], dropout=0.0, **how), (4, 3, 8, 8)),
        (lambda **how: models.MonotoneDEQ(image_size=8, channels=[4], **how), (4, 3, 8, 8)),
    ],
)
def test_classifiers_start_where_they_are_told(make, shape):
    model = make(forward=deq.Picard(max_evals=1)).eval()  # one look at the start
    images = torch.randn(shape)
    with torch.no_grad():
        start = [torch.randn_like(part) for part in model(images).equilibrium.state]
        output = model(images, start=start)
        for found, expected in zip(output.equilibrium.state, start):
            assert torch.equal(found, expected)
        with pytest.raises(deq.Error, match="shape|start"):
            model(images, start=[part[:, :1] for part in start])


def test_models_predict_where_solves_begin():
    images = models.MDEQ(channels=[8, 8], head_channels=[2, 2], dropout=0.0, predicted_start=True)
    words = models.DEQTransformer(
        vocabulary=20, cutoffs=[], d_model=12, d_embed=12, heads=2, d_head=6, d_inner=16, tie_projections=[],
        predicted_start=True,
    )
    of_images = images(torch.randn(4, 3, 8, 8)).equilibrium
    of_words = words(torch.randint(20, (2, 5))).equilibrium
    for model, eq in (images, of_images), (words, of_words):
        distance = deq.start_distance(eq)
        assert torch.equal(distance, torch.ones_like(distance)), "it is zero at first"
        (distance.mean() + deq.step_distance(eq).mean()).backward()
        for name, parameter in model.named_parameters():
            if ".start." in name:
                assert parameter.grad is not None, name
        assert any(parameter.grad.abs().max() > 0 for name, parameter in model.named_parameters() if ".start." in name)


def shared_options(config):
    return dict(
        vocabulary=config["n_token"],
        cutoffs=config["cutoffs"],
        div_val=config["div_val"],
        d_model=config["d_model"],
        d_embed=config["d_model"],
        heads=config["n_head"],
        d_head=config["d_head"],
        d_inner=config["d_inner"],
        dropout=0.0,
        attention_dropout=0.0,
    )


@pytest.mark.parametrize("name", ["deq_transformer_post_ln", "deq_transformer_pre_ln"])
def test_the_deq_transformer_gives_the_authors_costs_and_gradients(name):
    fixture = Fixture(name)
    config = fixture.config
    model = models.DEQTransformer(
        **shared_options(config),
        pre_ln=config["pre_lnorm"],
        weight_norm=config["weight_norm"],
        tie_projections=config["tie_projs"],
        **EXACT,
    ).double()
    model.load_state_dict(fixture.below("param."))
    memory = fixture.batch_first("in.mem_z"), fixture.batch_first("in.mem_u")
    output = model(
        fixture.batch_first("in.data"), fixture.batch_first("in.target"), memory=memory, capacity=config["mem_len"]
    )
    torch.testing.assert_close(output.nll.mean(), fixture["train.loss"], rtol=1e-11, atol=0)
    torch.testing.assert_close(output.memory[0], fixture.batch_first("train.new_mem_z"), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(output.memory[1], fixture.batch_first("train.new_mem_u"), rtol=1e-12, atol=1e-12)
    log_probabilities = model.log_probabilities(output.hidden)
    chosen = log_probabilities.gather(-1, fixture.batch_first("in.target")[..., None])[..., 0]
    torch.testing.assert_close(-chosen, output.nll)
    output.nll.mean().backward()
    assert_gradients(model, fixture.below("train.grad."), 1e-8, model.core.tied())


def test_transformer_xl_gives_the_authors_costs_and_gradients():
    fixture = Fixture("transformer_xl")
    config = fixture.config
    tied = [f"train.grad.crit.out_projs.{i}" not in fixture.names for i in range(len(config["cutoffs"]) + 1)]
    model = models.TransformerXL(**shared_options(config), layers=config["n_layer"], tie_projections=tied).double()
    model.load_state_dict(fixture.below("param."))
    memory = tuple(fixture.batch_first(f"in.mem.{i}") for i in range(config["n_layer"] + 1))
    output = model(
        fixture.batch_first("in.data"), fixture.batch_first("in.target"), memory=memory, capacity=config["mem_len"]
    )
    torch.testing.assert_close(output.nll.mean(), fixture["train.loss"], rtol=1e-13, atol=0)
    for i, layer in enumerate(output.memory):
        torch.testing.assert_close(layer, fixture.batch_first(f"train.new_mem.{i}"))
    output.nll.mean().backward()
    assert_gradients(model, fixture.below("train.grad."), 1e-11, model.core.tied())
    silent = model(fixture.batch_first("in.data"), memory=memory, capacity=config["mem_len"])
    torch.testing.assert_close(silent.hidden, output.hidden)


def waves(shape, j, base, scale):
    """What tests/fixtures/explicit_nets.json fills its networks with."""
    size = torch.Size(shape).numel()
    return (base + scale * torch.sin(0.7310 * torch.arange(size, dtype=torch.float64) + 1.37 * j)).view(shape)


def filled(name, shape, j):
    if len(shape) >= 2:
        return waves(shape, j, 0, (2 / torch.Size(shape[1:]).numel()) ** 0.5)
    if name.endswith("weight"):
        return waves(shape, j, 1, 0.2)
    return waves(shape, j, 1, 0.3) if name.endswith("running_var") else waves(shape, j, 0, 0.1)


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize("name, kind, options", [("resnet18", models.ResNet, {}), ("densenet121", models.DenseNet, {}),
                                                 ("resnet50", models.ResNet, dict(blocks=[3, 4, 6, 3], bottleneck=True))],
                         ids=["resnet18", "densenet121", "resnet50"])
def test_a_network_gives_torchvisions_scores(name, kind, options, stem):
    net = json.loads((FIXTURES / "explicit_nets.json").read_text())["nets"][f"{name}/{stem}"]
    model = kind(stem=stem, **options).double().eval()
    assert sum(parameter.numel() for parameter in model.parameters()) == net["params"]
    state = {name: filled(name, shape, j) for j, (name, shape) in enumerate(net["names"].items())}
    counters = {name: value for name, value in model.state_dict().items() if name.endswith("num_batches_tracked")}
    model.load_state_dict({**state, **counters})
    with torch.no_grad():
        logits = model(waves(net["input"], 0, 0, 1))
    torch.testing.assert_close(logits, torch.tensor(net["logits"], dtype=torch.float64), rtol=1e-9, atol=1e-9)


SMALL = {
    models.MDEQ: dict(channels=[8, 8], groups=4, head_channels=[4, 4], final_channels=8, dropout=0.0),
    models.MonotoneDEQ: dict(image_size=8, channels=[4]),
    models.ResNet: dict(blocks=[1, 1, 1, 1]),
    models.DenseNet: dict(layers=[1, 1, 1, 1], growth=8),
    models.Inception: dict(stem_channels=8, stem_outputs=16),
}
WORDS = dict(vocabulary=40, cutoffs=[10, 20], d_model=16, d_embed=16, heads=2, d_head=8, d_inner=24, dropout=0.0)
ALL = {
    **SMALL,
    models.DEQTransformer: dict(WORDS, div_val=2, tie_projections=[False, True, True], attention_dropout=0.0, horizon=8),
    models.TransformerXL: dict(WORDS, div_val=2, tie_projections=[False, True, True], layers=2),
    models.LoopedTransformer: dict(WORDS, div_val=2, tie_projections=[False, True, True], prelude=1, core=2, coda=1),
    models.RelationalMemory: dict(
        vocabulary=40, cutoffs=[10, 20], d_model=16, d_embed=16, div_val=2, tie_projections=[False, True, True], slots=3,
        heads=2, head_size=8, mlp_layers=2, embedding_dropout=0.0,
    ),
    models.GPT2: dict(vocabulary=40, cutoffs=[10, 20], layers=2, d_model=16, d_embed=16, heads=2, d_inner=24, positions=16, dropout=0.0,
                      attention_dropout=0.0),
    models.AwdQrnn: dict(vocabulary=40, cutoffs=[10, 20], layers=2, d_embed=16, d_hidden=12, input_dropout=0.0,
                         hidden_dropout=0.0, output_dropout=0.0),
}


def images(kind):
    size = 8 if kind is models.MonotoneDEQ else 16
    return torch.randn(2, 3, size, size)


def given(kind):
    """What a model of this kind reads."""
    return torch.randint(0, 40, (2, 6)) if issubclass(kind, models.LanguageModel) else images(kind)


def scores(output):
    return output if isinstance(output, torch.Tensor) else output[0]


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
def test_a_model_trains_like_a_module(kind):
    model = kind(**SMALL[kind])
    assert all(isinstance(parameter, torch.nn.Parameter) for parameter in model.parameters())
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    x, labels = images(kind), torch.tensor([1, 2])
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(scores(model(x)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_saved_model_comes_back(kind, tmp_path):
    torch.manual_seed(1)
    chosen = dict(
        forward=deq.LimitedBroyden(memory=3, max_evals=7, rtol=1e-3),
        gradient=deq.Implicit(solver=deq.Anderson(beta=0.5)),
        one_more_step=False,
        on_failure="report",
        float32_evals=2,
        replay="off",
    )
    model = kind(**ALL[kind], **chosen).eval()
    model.save_pretrained(tmp_path)
    twin = kind.from_pretrained(tmp_path)
    assert not twin.training and twin.options == model.options
    assert twin.plan.options == model.plan.options == deq.EquilibriumOptions(**chosen)
    x = given(kind)
    with torch.no_grad():
        assert torch.equal(scores(twin(x)), scores(model(x)))
    other = kind.from_pretrained(tmp_path, forward=deq.Picard(), gradient=deq.JacobianFree())
    assert other.plan.options == model.plan.options.replace(forward=deq.Picard(), gradient=deq.JacobianFree())
    with pytest.raises(deq.Error, match="is that of a"):
        (models.MDEQ if kind is models.ResNet else models.ResNet).from_pretrained(tmp_path)


def test_words_leave_the_loop_of_a_looped_transformer():
    torch.manual_seed(1)
    model = models.LoopedTransformer(**ALL[models.LoopedTransformer], gradient=deq.Unrolled(steps=6)).eval()
    tokens, targets = torch.randint(0, 40, (2, 6)), torch.randint(0, 40, (2, 6))
    with torch.no_grad():
        looped = model(tokens, targets, capacity=4)
        never = model.read_with_exits(tokens, targets, loops=6, rtol=0.0, capacity=4)
        at_once = model.read_with_exits(tokens, loops=6, rtol=1e9)
    torch.testing.assert_close(never.nll, looped.nll)
    assert never.loops.eq(6).all() and at_once.loops.eq(1).all() and at_once.nll is None
    assert len(never.memory) == len(looped.memory) == 4 and never.memory[0].shape == (2, 4, 16)
    with pytest.raises(deq.Error, match="rtol = -1, must be ≥ 0"):
        model.read_with_exits(tokens, loops=6, rtol=-1.0)


def test_a_relational_memory_goes_on_from_its_memory():
    torch.manual_seed(1)
    model = models.RelationalMemory(**ALL[models.RelationalMemory]).double()
    tokens, targets = torch.randint(0, 40, (2, 6)), torch.randint(0, 40, (2, 6))
    whole = model(tokens, targets, capacity=1)
    first = model(tokens[:, :2], targets[:, :2], capacity=1)
    second = model(tokens[:, 2:], targets[:, 2:], memory=first.memory, capacity=1)
    torch.testing.assert_close(torch.cat([first.nll, second.nll], 1), whole.nll)
    torch.testing.assert_close(second.memory, whole.memory)
    assert whole.memory[0].shape == (2, 3, 16) and not whole.memory[0].requires_grad
    assert model(tokens).memory == () and model(tokens).nll is None
    chosen = model.log_probabilities(whole.hidden).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(-chosen, whole.nll)
    whole.nll.mean().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if name.startswith("core."))
    with pytest.raises(deq.Error, match="slots = 0, must be ≥ 1"):
        models.RelationalMemory(slots=0)
    with pytest.raises(TypeError, match="gates is 'some', must be 'none', 'unit' or 'memory'"):
        models.RelationalMemory(gates="some")


def test_a_recurrent_network_goes_on_where_it_stopped():
    torch.manual_seed(1)
    model = models.AwdQrnn(**ALL[models.AwdQrnn], activation_penalty=2.0, slowness_penalty=3.0).double()
    tokens, targets = torch.randint(0, 40, (2, 9)), torch.randint(0, 40, (2, 9))
    whole = model(tokens, targets, capacity=1)
    first = model(tokens[:, :4], targets[:, :4], capacity=1)
    second = model(tokens[:, 4:], targets[:, 4:], memory=first.memory)
    torch.testing.assert_close(torch.cat([first.nll, second.nll], 1), whole.nll)
    assert [state.shape for state in whole.memory] == [(2, 12), (2, 16), (2, 1, 16)]
    h = whole.hidden
    torch.testing.assert_close(whole.penalty, 2 * h.square().mean() + 3 * h.diff(dim=1).square().mean())
    chosen = model.log_probabilities(h).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(-chosen, whole.nll)
    assert model.eval()(tokens, targets).penalty is None and model(tokens).nll is None
    assert model(tokens).memory == ()
    with pytest.raises(deq.Error, match="a memory of 2 layers|a memory of shape"):
        model(tokens, memory=whole.memory[1:])


def test_a_model_that_was_saved_without_its_solver_comes_back(tmp_path):
    model = models.ResNet(**SMALL[models.ResNet]).eval()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["equilibrium"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    x = images(models.ResNet)
    assert torch.equal(models.ResNet.from_pretrained(tmp_path)(x), model(x))
    (tmp_path / "config.json").write_text(json.dumps({**config, "equilibrium": {"forward": {"name": "Newton"}}}))
    with pytest.raises(deq.Error, match="equilibrium names 'Newton', must be one of Picard"):
        models.ResNet.from_pretrained(tmp_path)


def test_without_safetensors_it_says_what_to_install(tmp_path, monkeypatch):
    model = models.ResNet(**SMALL[models.ResNet])
    for name in [name for name in sys.modules if name.split(".")[0] == "safetensors"] + ["safetensors.torch"]:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "config.toml").write_text("")
    for use in (lambda: model.save_pretrained(tmp_path), lambda: models.ResNet.from_pretrained(tmp_path), lambda: deq.load(tmp_path)):
        with pytest.raises(deq.Error, match=r'needs safetensors: run `python -m pip install "libdeq\[models\]"`'):
            use()


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_python_and_cpp_do_not_part(kind):
    model = kind(**ALL[kind])
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(deq.Error, match="load without assign"):
        model.load_state_dict(state, assign=True)
    model.load_state_dict(state)
    model(given(kind))
    *path, own = next(name for name, _ in model.named_parameters()).split(".")
    owner = model.get_submodule(".".join(path))
    kept = getattr(owner, own)
    setattr(owner, own, torch.nn.Parameter(torch.zeros_like(kept)))
    with pytest.raises(deq.Error, match="is another tensor than the one that the model computes with"):
        model(given(kind))
    setattr(owner, own, kept)
    model(given(kind))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"])
def test_a_copy_is_a_model_of_its_own(kind, copied):
    model = kind(**ALL[kind], forward=deq.Broyden(max_evals=5)).double().eval()
    frozen = next(iter(dict(model.named_parameters())))
    model.get_parameter(frozen).requires_grad_(False)
    twin = copied(model)
    assert type(twin) is kind and not twin.training and twin.options == model.options
    assert twin.plan.options == model.plan.options
    assert {name for name, p in twin.named_parameters() if not p.requires_grad} == {frozen}
    x = given(kind)
    x = x.double() if x.is_floating_point() else x
    with torch.no_grad():
        before = scores(model(x))
        assert torch.equal(scores(twin(x)), before)
        for parameter in twin.parameters():
            parameter.mul_(0.5)
        assert torch.equal(scores(model(x)), before)
        assert not torch.equal(scores(twin(x)), before)


def test_the_hub_gets_and_gives_what_is_saved(tmp_path, monkeypatch):
    """A stand-in for the hub's package: what it is called with is its documented interface."""
    hub = types.ModuleType("huggingface_hub")
    hub.create_repo = lambda name, exist_ok: (tmp_path / name).mkdir(parents=True, exist_ok=exist_ok)
    hub.upload_folder = lambda repo_id, folder_path: shutil.copytree(folder_path, tmp_path / repo_id, dirs_exist_ok=True)
    hub.snapshot_download = lambda name, revision: str(tmp_path / name)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    kind = models.ResNet
    model = kind(**SMALL[kind]).eval()
    model.push_to_hub("someone/small")
    x = images(kind)
    assert torch.equal(kind.from_pretrained("someone/small")(x), model(x))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(deq.Error, match=r"someone/small is no folder: the hub needs huggingface_hub: run .*libdeq\[hub\]"):
        kind.from_pretrained("someone/small")


def test_modes_reach_the_model():
    model = models.ResNet(**SMALL[models.ResNet])
    x = images(models.ResNet)
    before = model.state_dict()["bn1.running_mean"].clone()
    model.eval()(x)
    assert torch.equal(model.state_dict()["bn1.running_mean"], before)
    model.train()(x)
    assert not torch.equal(model.state_dict()["bn1.running_mean"], before)


def test_presets_and_what_they_do_not_have():
    model = models.MDEQ.preset("cifar-tiny", forward=deq.Broyden(max_evals=5))
    assert sum(parameter.numel() for parameter in model.parameters()) == 158890
    with pytest.raises(deq.Error, match="cifar-tiny"):
        models.MDEQ.preset("cifar-huge")
    with pytest.raises(TypeError, match="MdeqOptions has no option 'width'"):
        models.MDEQ(width=3)
    with pytest.raises(TypeError, match="channels is 'a', must be a list"):
        models.MDEQ(channels="a")
    with pytest.raises(deq.Error, match="groups"):
        models.MDEQ(groups=1)


def test_a_models_failed_solve_is_raised():
    model = models.MDEQ(**SMALL[models.MDEQ], forward=deq.Picard(max_evals=1, rtol=1e-9), on_failure="raise")
    with pytest.raises(deq.ConvergenceError, match="the forward solve failed"):
        model(images(models.MDEQ))
