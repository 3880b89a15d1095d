"""Every loss and gradient against a loop over pairs in float64."""

import pytest
import torch
from ident3d.benchmark.experiments import select as experiments
from ident3d.benchmark.losses import (
    LOSSES,
    OBJECTIVES,
    Dot,
    Importance,
    Lp,
    Metric,
    alignment_uniformity,
    ensemble,
    infonce,
    make_objective,
    make_similarity,
    pooled,
    spectral,
    supervised,
    tricl,
)
from ident3d.benchmark.losses import _kernels as kernels
from ident3d.benchmark.losses import _pairwise as pairwise
from ident3d.benchmark.settings.run_settings import Loss

from tests.support.loops import (
    DIM,
    SIMILARITIES,
    SIZES,
    TOLERANCE,
    assert_same,
    batch,
    gradients,
    learned,
    one_way,
    row,
    without,
)

OPTIONS = {
    "plain": {},
    "tau": {"tau": 0.3},
    "no positive": {"include_positive": False},
    "hard": {"hard_negatives": True},
    "symmetric": {"symmetric": True},
    "self": {"self_negative": True},
    "independent": {"negatives": True},
    "positives": {"negatives": "positives"},
    "both": {"negatives": "both"},
    "all": {
        "tau": 2.0,
        "include_positive": False,
        "hard_negatives": True,
        "symmetric": True,
        "self_negative": True,
        "negatives": "both",
    },
}


def reference(name, data, raw, options):
    """Loss and gradients in float64 by loops."""
    pair = SIMILARITIES[name][1]
    data = {key: value.double().requires_grad_() for key, value in data.items()}
    raw = None if raw is None else raw.detach().double().requires_grad_()
    settings = {"tau": 1.0, "include_positive": True, "self_negative": False, **options}
    symmetric = settings.pop("symmetric", False)
    hard = data["hard"] if settings.pop("hard_negatives", False) else None
    negatives = settings.pop("negatives", "anchors")
    negatives = data["free"] if negatives is True else negatives
    z = data["anchors"], data["positives"]
    loss = one_way(pair, raw, z, negatives=negatives, hard=hard, **settings)
    if symmetric:
        back = one_way(pair, raw, z[::-1], negatives=negatives, hard=None, **settings)
        loss = (loss + back) / 2
    return loss, gradients(loss, data, raw)


def computed(name, data, options, dtype):
    """The library's loss and gradients."""
    similarity = SIMILARITIES[name][0]()
    raw = similarity.to(dtype).raw if isinstance(similarity, torch.nn.Module) else None
    data = {key: value.to(dtype).requires_grad_() for key, value in data.items()}
    options = dict(options)
    if options.get("hard_negatives"):
        options["hard_negatives"] = data["hard"]
    if options.get("negatives") is True:
        options["negatives"] = data["free"]
    loss = infonce(data["anchors"], data["positives"], similarity=similarity, **options)
    return loss, gradients(loss, data, raw)


# Loops over 512 rows take a second each: there, every option once for each kind of kernel.
CASES = [
    (name, option, n)
    for name in SIMILARITIES
    for option in OPTIONS
    for n in SIZES
    if n < 512 or name in ("dot", "l3", "metric") or option in ("plain", "all")
]


@pytest.mark.parametrize(("name", "option", "n"), CASES)
def test_infonce_equals_loops(name, option, n):
    data, options = batch(n), OPTIONS[option]
    right = reference(name, data, learned(name), options)
    for dtype, tolerance in TOLERANCE.items():
        assert_same(computed(name, data, options, dtype), right, tolerance)


@pytest.mark.parametrize("option", ["hard", "both", "no positive"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_infonce_in_many_blocks(name, option, monkeypatch):
    monkeypatch.setattr(kernels.Kernel, "cpu_block", 40)
    monkeypatch.setattr(kernels._Lp, "cpu_block", 40)
    data = batch(17)  # blocks of one or two rows, the last one shorter
    right = reference(name, data, learned(name), OPTIONS[option])
    assert_same(computed(name, data, OPTIONS[option], torch.float64), right, 1e-10)


@pytest.mark.parametrize("name", ["l1", "l3", "root2"])
def test_infonce_by_rows_where_halves_take_too_much_memory(name, monkeypatch):
    data = batch(17)
    halves = computed(name, data, {}, torch.float64)
    monkeypatch.setattr(pairwise, "STORED", 0)
    assert_same(computed(name, data, {}, torch.float64), halves, 1e-12)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_digits_survive_large_spaces(name):
    """A learned space is 1 / 0.05 wide, and boxes lie to one side of 0."""
    data = {key: value + 20 for key, value in batch(512, spread=6.0, noise=1.0).items()}
    right = reference(name, data, learned(name), {})
    for dtype, tolerance in TOLERANCE.items():
        assert_same(computed(name, data, {}, dtype), right, tolerance)


SMALL = {"l1": 8.0, "l2": 4.0, "l3": 3.0, "metric": 4.0}


@pytest.mark.parametrize("name", SMALL)
def test_digits_survive_small_losses(name):
    data = batch(17, spread=SMALL[name], noise=0.1)
    right = reference(name, data, learned(name), {})
    assert 1e-12 < right[0] < 1e-4
    assert_same(computed(name, data, {}, torch.float32), right, 1e-5)


@pytest.mark.parametrize("name", ["l1", "l2.5", "root1", "root2", "root3"])
def test_points_that_coincide_pull_nothing(name):
    """Saturated boxes produce ties; the subgradient at 0 is 0, as torch's own."""
    data = batch(17)
    data["anchors"][1] = data["anchors"][0]
    data["anchors"][3, 0] = data["anchors"][2, 0]
    right = reference(name, data, None, {})
    assert_same(computed(name, data, {}, torch.float64), right, 1e-10)


def test_far_negatives_give_zero_not_nan():
    anchors = torch.tensor([[0.0, 0.0], [1e4, 0.0]], requires_grad=True)
    loss = infonce(anchors, anchors.detach() + 1, similarity=Lp(3))
    loss.backward()
    assert loss == 0
    assert torch.isfinite(anchors.grad).all()


def test_second_derivatives_are_refused():
    data = {key: value.requires_grad_() for key, value in batch(3).items()}
    loss = infonce(data["anchors"], data["positives"], similarity=Lp(1))
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(loss, data["anchors"], create_graph=True)


def test_no_gradient_is_computed_for_nobody(monkeypatch):
    monkeypatch.setattr(kernels._Lp, "pull", lambda *_: pytest.fail("gradient work"))
    data = {key: value.requires_grad_() for key, value in batch(3).items()}
    with torch.no_grad():
        infonce(data["anchors"], data["positives"], similarity=Lp(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_embeddings_meet_float32_logits(dtype):
    data = batch(17)
    data = {key: value.to(dtype).float() for key, value in data.items()}
    whole = computed("l2", data, {}, torch.float32)
    half = computed("l2", data, {}, dtype)
    assert half[0].dtype == torch.float32
    assert half[1]["anchors"].dtype == dtype
    assert torch.allclose(half[0], whole[0], rtol=1e-6)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["dot", "l1", "l2", "l3", "metric"])
def test_alignment_uniformity_equals_loops(name, n):
    data = batch(n)
    pair = SIMILARITIES[name][1]

    def loops(data, raw):
        anchors, positives = data["anchors"], data["positives"]
        alignment = uniformity = 0
        for i in range(n):
            alignment = alignment - pair(anchors[i], positives[i], raw) / 0.7
            terms = row(pair, anchors[i], without(anchors, i), raw) / 0.7
            uniformity = uniformity + terms.exp().mean().log()
        return (0.8 * alignment + 0.2 * uniformity) / n

    def library(data, similarity):
        return alignment_uniformity(
            data["anchors"], data["positives"], similarity=similarity, tau=0.7, alpha=0.2
        )

    compare(name, data, loops, library)


def compare(name, data, loops, library):
    """Check a loss over a similarity, its gradients included, in both precisions."""
    raw = learned(name)
    raw = None if raw is None else raw.detach().double().requires_grad_()
    leaves = {key: data[key].double().requires_grad_() for key in ("anchors", "positives")}
    loss = loops(leaves, raw)
    right = loss, gradients(loss, leaves, raw)
    for dtype, tolerance in TOLERANCE.items():
        similarity = SIMILARITIES[name][0]()
        ours = similarity.to(dtype).raw if raw is not None else None
        leaves = {key: data[key].to(dtype).requires_grad_() for key in ("anchors", "positives")}
        loss = library(leaves, similarity)
        assert loss.dtype == dtype
        assert_same((loss, gradients(loss, leaves, ours)), right, tolerance)


def spectral_loops(data, raw, pair):
    anchors, positives = data["anchors"], data["positives"]
    n = len(anchors)
    attraction = sum(pair(anchors[i], positives[i], raw) for i in range(n)) / n
    repulsion = 0
    for i in range(n):
        repulsion = repulsion + row(pair, anchors[i], without(anchors, i), raw).square().sum()
    return repulsion / (n * (n - 1)) - 2 * attraction


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["dot", "importance"])
def test_spectral_equals_loops(name, n):
    compare(
        name,
        batch(n),
        lambda data, raw: spectral_loops(data, raw, SIMILARITIES[name][1]),
        lambda data, similarity: spectral(**data, similarity=similarity),
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("form", ["spectral", "infonce"])
def test_tricl_equals_loops(form, n):
    pair = SIMILARITIES["importance"][1]

    def loops(data, raw):
        if form == "spectral":
            loss = spectral_loops(data, raw, pair)
        else:
            z = data["anchors"], data["positives"]
            loss = one_way(pair, raw, z, 0.5, "anchors", None, True, False)
        rows = [*data["anchors"], *data["positives"]]
        moment = sum(torch.outer(z, z) for z in rows) / len(rows)
        return loss + 0.1 * (moment - torch.eye(DIM)).square().sum()

    def library(data, similarity):
        return tricl(**data, similarity=similarity, form=form, tau=0.5, decorrelation=0.1)

    compare("importance", batch(n), loops, library)


def test_ensemble_is_the_sum_of_its_processes():
    first, second = batch(17), batch(17, seed=1)
    metrics = [Metric(DIM, 1.0), Metric(DIM, 3.0)]
    pairs = [(data["anchors"], data["positives"]) for data in (first, second)]
    total = ensemble(pairs, similarities=metrics, tau=0.5)
    parts = [infonce(*p, similarity=m, tau=0.5) for p, m in zip(pairs, metrics, strict=True)]
    assert torch.isclose(total, sum(parts))
    total.backward()
    assert all(metric.raw.grad.abs().min() > 0 for metric in metrics)


def test_supervised_is_the_mean_over_all_entries():
    outputs, latents = (
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[1.0, 0.0], [0.0, 4.0]]),
    )
    assert supervised(outputs, latents) == (0 + 4 + 9 + 0) / 4


def test_metric_starts_where_told():
    assert torch.allclose(Metric(3, 400.0).value, torch.full((3,), 400.0))
    assert torch.allclose(Metric(3, [0.01, 1.0, 25.0]).value, torch.tensor([0.01, 1.0, 25.0]))


def test_names():
    assert LOSSES["infonce"] is infonce
    names = {"alignment-uniformity", "spectral", "tricl", "ensemble", "pooled", "supervised"}
    assert set(LOSSES) >= names


# A model of images, not a function of embeddings: test_slow_vae.py.
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "slow-vae"])
@pytest.mark.parametrize("similarity", ["l2", "metric"])
def test_objectives_are_their_functions(name, similarity):
    """Of settings and views; the learned parts are parameters, and are told."""
    settings = Loss(name=name, similarity=similarity, tau=0.5, negatives="both")
    processes = 2 if name in ("ensemble", "pooled") else 1
    objective = make_objective(settings, DIM, processes)
    views = [view for seed in range(processes) for view in batch_views(17, seed)]
    loss = objective(views, torch.zeros(2 * processes * 17, DIM))
    assert torch.isfinite(loss)
    learned = {"tricl": 1, "ensemble": 2}.get(name, 1) if similarity == "metric" else 0
    learned = {"tricl": 1, "spectral": 0, "supervised": 0}.get(name, learned)
    assert len(objective.metrics) == len(list(objective.parameters())) == learned
    own = [make_similarity(similarity, DIM) for _ in range(processes)]
    options = {"tau": 0.5, "negatives": "both"}
    pairs = list(zip(views[::2], views[1::2], strict=True))
    expected = {
        "infonce": lambda: infonce(*pairs[0], similarity=own[0], **options),
        "alignment-uniformity": lambda: alignment_uniformity(*pairs[0], similarity=own[0], tau=0.5),
        "spectral": lambda: spectral(*pairs[0]),
        "tricl": lambda: tricl(*pairs[0], similarity=Importance(DIM)),
        "ensemble": lambda: ensemble(pairs, similarities=own, **options),
        "pooled": lambda: pooled(pairs, similarity=own[0], **options),
        "supervised": lambda: torch.cat(views).square().mean(),
    }
    torch.testing.assert_close(loss, expected[name]())
    if name not in ("infonce", "supervised"):
        with pytest.raises(ValueError, match="takes no hard negatives"):
            objective([*views, views[0]])


def batch_views(n, seed):
    data = batch(n, seed=seed)
    return data["anchors"], data["positives"]


def test_hard_negatives_are_those_of_their_anchor():
    data = batch(17)
    objective = make_objective(Loss(similarity="l2"), DIM)
    views = data["anchors"], data["positives"]
    expected = infonce(*views, similarity=Lp(2), hard_negatives=data["hard"])
    torch.testing.assert_close(objective([*views, data["hard"].flatten(0, 1)]), expected)


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("self_negative", [False, True])
@pytest.mark.parametrize("include_positive", [False, True])
@pytest.mark.parametrize("name", ["infonce", "hard", "pooled", "ensemble"])
def test_objectives_of_settings_equal_loops(name, include_positive, self_negative, root):
    chosen = {"include_positive": include_positive, "self_negative": self_negative}
    processes = 2 if name in ("pooled", "ensemble") else 1
    settings = (
        experiments.EXPERIMENTS["table2/2"]
        .tiers["cpu"]
        .read(
            {
                "loss": "infonce" if name == "hard" else name,
                "similarity": "l3",
                "root": str(root).lower(),
            }
            | {option: str(value).lower() for option, value in chosen.items()}
        )
    )
    data = [{k: v.double() for k, v in batch(9, seed=seed).items()} for seed in range(processes)]
    views = [view for part in data for view in (part["anchors"], part["positives"])]
    pair = SIMILARITIES["root3" if root else "l3"][1]
    options = {"tau": 1.0, "negatives": "anchors", "hard": None, **chosen}
    pairs = list(zip(views[::2], views[1::2], strict=True))
    if name == "hard":
        views.append(data[0]["hard"].flatten(0, 1))
        options["hard"] = data[0]["hard"]
    if name == "pooled":
        pairs = [tuple(map(torch.cat, zip(*pairs, strict=True)))]
    right = sum(one_way(pair, None, z, **options) for z in pairs)
    found = make_objective(settings.loss, DIM, processes)(views)
    torch.testing.assert_close(found, right, rtol=1e-10, atol=0)


def test_supervision_of_anchors_alone():
    views, latents = batch_views(17, 0), torch.randn(34, DIM)
    loss = make_objective(Loss(name="supervised", anchors_only=True), DIM)(views, latents)
    torch.testing.assert_close(loss, (views[0] - latents[:17]).square().mean())


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda z: infonce(z, z[:2], similarity=Dot()), r"`anchors` and `positives`"),
        (lambda z: infonce(z[:1], z[:1], similarity=Dot()), "at least 2 rows"),
        (lambda z: infonce(z, z, similarity=Dot(), tau=0), "`tau` must be positive"),
        (lambda z: infonce(z, z, similarity=Dot(), negatives="anchor"), "Did you mean 'anchors'"),
        (lambda z: infonce(z, z, similarity=Dot(), negatives=z[:, :2]), "`negatives` must have"),
        (lambda z: infonce(z, z, similarity=Dot(), hard_negatives=z), "`hard_negatives` must have"),
        (lambda z: alignment_uniformity(z, z, similarity=Dot(), alpha=2), "`alpha` must lie"),
        (lambda z: alignment_uniformity(z[:1], z[:1], similarity=Dot()), "at least 2 rows"),
        (lambda z: spectral(z, z, similarity=Lp(2)), "must be a dot product"),
        (lambda z: spectral(z[:1], z[:1]), "at least 2 rows"),
        (lambda z: Lp(0.5), "`p` must be at least 1"),
        (lambda z: make_similarity("dot", 3, root=True), "`root` must be false for dot"),
        (lambda z: Metric(3, 0.0), "`start` must be positive"),
        (lambda z: Metric(3, [1.0, 2.0]), "`start` must be one number or 3"),
        (lambda z: ensemble([(z, z)], similarities=[]), "`similarities` must be as many"),
    ],
)
def test_bad_arguments_are_named(call, rule):
    with pytest.raises(ValueError, match=rule):
        call(torch.randn(3, 3))
