import itertools

import numpy as np
import pytest

from ident3d.factors import varying as varying_factors
from ident3d.metrics import (
    block_mcc,
    linear_r2,
    linear_r2_per_factor,
    match_columns,
    mcc,
    mcc_matrix,
)


def normals(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def rotation(dim, seed=0):
    return np.linalg.qr(normals(dim, dim, seed=seed))[0]


def by_enumeration(z, z_hat):
    dim = z.shape[1]
    table = np.abs(np.corrcoef(z.T, z_hat.T)[:dim, dim:])
    return max(
        table[range(dim), p].mean() for p in itertools.permutations(range(len(table.T)), dim)
    )


@pytest.mark.parametrize(("dim", "columns"), [(1, 1), (2, 2), (3, 5), (5, 5), (6, 6)])
def test_mcc_equals_enumeration(dim, columns):
    for seed in range(5):
        z = normals(40, dim, seed=seed)
        z_hat = np.tanh(z @ normals(dim, columns, seed=seed + 50)) + normals(40, columns, seed=99)
        assert mcc(z, z_hat) == pytest.approx(by_enumeration(z, z_hat), abs=1e-12)


def test_mcc_ignores_order_sign_and_scale():
    z = normals(100, 4)
    assert mcc(z, -3 * z[:, [2, 0, 3, 1]] + 7) == pytest.approx(1)


def test_spearman_ignores_monotone_maps_where_pearson_does_not():
    z = normals(500, 3)
    bent = np.exp(3 * z[:, ::-1])
    assert mcc(z, bent, method="spearman") == pytest.approx(1)
    assert mcc(z, bent) < 0.7


def test_spearman_is_pearson_of_ranks_with_ties():
    z = normals(60, 1).round(0)
    z_hat = normals(60, 1, seed=1).round(0) + z

    def ranks(values):
        return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])

    expected = np.corrcoef(ranks(z[:, 0]), ranks(z_hat[:, 0]))[0, 1]
    assert mcc_matrix(z, z_hat, "spearman")[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("held_out", [True, False])
def test_r2_of_an_affine_image_is_one(held_out):
    z = normals(200, 5)
    scales = np.array([1e-6, 1, 1e6, 3, 10])
    z_hat = (z @ rotation(5)) * scales + 100
    assert linear_r2_per_factor(z, z_hat, held_out=held_out) == pytest.approx(np.ones(5))
    assert linear_r2(z, np.hstack([z_hat, z_hat]), held_out=held_out) == pytest.approx(1)


@pytest.mark.parametrize(
    ("held_out", "fit", "score"),
    [(True, range(0, 81, 2), range(1, 81, 2)), (False, range(81), range(81))],
)
def test_r2_matches_plain_least_squares(held_out, fit, score):
    z, z_hat = normals(81, 3), normals(81, 4, seed=1)
    z[:, 0] += z_hat[:, 1]
    design = np.column_stack([z_hat, np.ones(81)])
    weights = np.linalg.pinv(design[fit]) @ z[fit]
    error = z[score] - design[score] @ weights
    expected = 1 - (error**2).sum(0) / ((z[score] - z[score].mean(0)) ** 2).sum(0)
    assert linear_r2_per_factor(z, z_hat, held_out=held_out) == pytest.approx(expected)


def test_held_out_half_is_the_odd_rows():
    z = normals(400, 2)
    score_spoiled, fit_spoiled = z.copy(), z.copy()
    score_spoiled[1::2] *= -1
    fit_spoiled[::2] *= -1
    for spoiled in (score_spoiled, fit_spoiled):  # predictions have the wrong sign: R2 = 1 - 4
        assert linear_r2(z, spoiled) == pytest.approx(-3, abs=0.2)
    assert linear_r2(z[1:], score_spoiled[1:]) == pytest.approx(-3, abs=0.2)
    assert linear_r2(z, score_spoiled, held_out=False) == pytest.approx(0, abs=0.1)
    z[::2] += 10  # an offset between the halves belongs to the fit, and is seen in the score
    assert linear_r2(z, normals(400, 2, seed=1)) < -50


def test_noise_scores_nothing_held_out_and_more_without():
    z, z_hat = normals(100, 3), normals(100, 30, seed=1)
    assert linear_r2(z, z_hat) < 0 < 0.2 < linear_r2(z, z_hat, held_out=False)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 / 3])
def test_constant_columns_score_zero_and_say_so(value):
    z = normals(100, 3)
    flat = z.copy()
    flat[:, 1] = value
    with pytest.warns(UserWarning, match=r"`z_hat` never changes in column 1; its corr.* scored 0"):
        assert mcc(z, flat) == pytest.approx(2 / 3)
    with pytest.warns(UserWarning, match="`z` never changes in column 1"):
        assert mcc_matrix(flat, z)[1] == pytest.approx(0)
    with pytest.warns(UserWarning, match=r"column 1; its R2 is undefined and scored 0"):
        assert linear_r2_per_factor(flat, z) == pytest.approx([1, 0, 1])
    with pytest.warns(UserWarning, match="`z_hat` never changes in column 1; it explains nothing"):
        assert linear_r2_per_factor(z, flat)[[0, 2]] == pytest.approx(1)
    with pytest.warns(UserWarning, match="scored 0"):
        assert block_mcc(z, flat, [[0, 1], [2]]) == pytest.approx(2 / 3)


def test_ranks_do_not_see_rounding():
    z = normals(100, 2)
    flat = z.copy()
    flat[:, 1] = 1 + 1e-15 * z[:, 1]
    with pytest.warns(UserWarning, match="`z_hat` never changes in column 1"):
        assert mcc(z, flat, "spearman") == pytest.approx(0.5)


def test_blocks_forgive_rotations_inside_and_only_inside():
    z = normals(5000, 6)
    blocks = [[0, 3], [1, 2, 4], [5]]
    turned = np.empty_like(z)
    for block in blocks:
        turned[:, block] = z[:, block] @ rotation(len(block), seed=len(block))
    shuffled = turned[:, np.random.default_rng(1).permutation(6)] * 5
    assert block_mcc(z, shuffled, blocks) == pytest.approx(1)
    assert mcc(z, shuffled) < 0.95
    assert block_mcc(z, z @ rotation(6), blocks) < 0.9
    assert block_mcc(z, z @ rotation(6), [range(6)]) == pytest.approx(1)


def test_copies_of_a_column_do_not_cost_a_block_its_other_factor():
    z = normals(400, 3)
    near = [z[:, 0], z[:, 0] + 1e-3 * normals(400, 1, seed=1)[:, 0], z[:, 1] + 0.1, z[:, 2]]
    assert block_mcc(z, np.column_stack(near), [[0, 1], [2]]) == pytest.approx(1)


def test_blocks_of_one_are_mcc():
    z = normals(50, 4)
    z_hat = z @ normals(4, 5, seed=1) + normals(50, 5, seed=2)
    assert block_mcc(z, z_hat, [[i] for i in range(4)]) == pytest.approx(mcc(z, z_hat))


def test_a_lost_block_counts_with_its_size():
    z = normals(20_000, 4)
    z_hat = np.hstack([z[:, :1], normals(20_000, 3, seed=1)])  # three of four factors are lost
    assert block_mcc(z, z_hat, [[0], [1, 2, 3]]) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("metric", [linear_r2, mcc, lambda z, z_hat: block_mcc(z, z_hat, [[0, 1]])])
def test_bad_input_is_refused(metric):
    z = normals(20, 2)
    holed = z.copy()
    holed[7, 1] = np.nan
    with pytest.raises(ValueError, match="`z_hat` must be finite; row 7"):
        metric(z, holed)
    with pytest.raises(ValueError, match="same number of rows"):
        metric(z, z[:-1])
    with pytest.raises(ValueError, match=r"`z` must have shape \(rows, columns\)"):
        metric(z[:, 0], z)


def test_bad_settings_are_refused():
    z = normals(20, 2)
    with pytest.raises(ValueError, match="Did you mean 'spearman'"):
        mcc(z, z, method="speerman")
    with pytest.raises(ValueError, match="a column for each of the 2 factors, got 1"):
        mcc(z, z[:, :1])
    with pytest.raises(ValueError, match="exactly once"):
        block_mcc(z, z, [[0], [0, 1]])
    with pytest.raises(ValueError, match="at least 44 rows"):
        linear_r2(z, normals(20, 20))


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_columns_are_matched_as_enumeration_does(columns):
    correlation = np.random.default_rng(columns).uniform(-1, 1, (3, columns))
    factors, matched = match_columns(correlation)
    assert len(factors) == min(3, columns) and (np.diff(factors) > 0).all()
    tried = itertools.product(
        itertools.combinations(range(3), len(factors)),
        itertools.permutations(range(columns), len(factors)),
    )
    best = max(np.abs(correlation[list(rows), list(order)]).sum() for rows, order in tried)
    assert np.abs(correlation[factors, matched]).sum() == pytest.approx(best)


def test_factors_that_never_vary_are_named_with_the_way_out():
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(size=(100, 3)), np.ones((100, 7))], axis=1)
    way = r"score `z\[:, ident3d.factors.varying\(z\)\]`, which `data.varying` names"
    with pytest.raises(ValueError, match=f"10 factors, got 3; 7 of them never vary: {way}"):
        mcc(z, z[:, :3])
    with pytest.warns(UserWarning, match=f"`z` never changes in column 3, 4, .*; {way}"):
        assert linear_r2(z, z[:, :3]) == pytest.approx(0.3)
    varying = z[:, varying_factors(z)]
    assert mcc(varying, z[:, :3]) == pytest.approx(1)
    assert linear_r2(varying, z[:, :3]) == pytest.approx(1)
