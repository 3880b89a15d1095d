import numpy as np
import pytest
from ident3d.benchmark.scoring import score
from ident3d.benchmark.scoring.protocols import fit_and_score, scored_rows

RNG = np.random.default_rng(0)


def test_protocols_score_their_own_rows():
    assert np.array_equal(scored_rows("held-out", 25_000), np.arange(25_000))
    rows = scored_rows("as-released", 25_000)
    assert len(rows) == len(set(rows)) == 4096 and rows.max() > 20_000  # shuffled
    assert np.array_equal(rows, scored_rows("as-released", 25_000))
    assert np.array_equal(scored_rows("paper", 25_000), np.arange(4096))
    assert len(scored_rows("as-released", 100)) == 100


@pytest.mark.parametrize("rows", [10, 11])
def test_what_is_fitted_and_what_is_scored(rows):
    for protocol in ("held-out", "clean", "as-released"):
        fit, scored = fit_and_score(protocol, rows)
        assert sorted([*fit, *scored]) == list(range(rows)) and len(fit) - len(scored) in (0, 1)
    assert fit_and_score("as-released", rows)[0].tolist() == list(range((rows + 1) // 2))
    for found in (fit_and_score("paper", rows), fit_and_score("as-released", rows, synthetic=True)):
        assert np.array_equal(found[0], found[1]) and len(found[0]) == rows
    assert len(fit_and_score("held-out", rows, synthetic=True)[0]) < rows


def test_noise_explains_something_only_where_it_is_fitted():
    z, noise = RNG.uniform(-1, 1, (301, 2)), RNG.normal(size=(301, 100))
    found = {
        name: score(z, noise, name, "xy", ["r2"])["r2"] for name in ("as-released", "held-out")
    }
    assert max(found.values()) < 0
    assert score(z, noise, "as-released", "xy", ["r2"], synthetic=True)["r2"] > 0.2
    assert score(z, noise, "paper", "xy", ["r2"])["r2"] > 0.2


def test_the_halves_of_as_released_are_the_first_and_the_second():
    z = RNG.uniform(-1, 1, (200, 2))
    embeddings = np.concatenate([z[:100], z[100:, ::-1]])  # what was fitted does not hold there
    assert score(z, embeddings, "as-released", "xy", ["r2"])["r2"] < -0.5
