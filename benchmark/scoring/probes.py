"""Scores beyond linear R2 and MCC: what a nonlinear reader finds, and how tidily it is laid out.

Both probes fit on even rows and are scored on odd ones, whatever `held_out` says: a flexible probe
scored where it was fit measures its own memory. Both take at most `LIMIT` rows of each kind.
"""

import numpy as np

from ident3d.rows import evenly

LIMIT = 2_000  # rows to fit and rows to score: beyond, the scores move in the third digit
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # ridge penalties, chosen by cross-validation
TREES = 50


def kernel_ridge(
    latents: np.ndarray, embeddings: np.ndarray, held_out: bool = True
) -> dict[str, float | np.ndarray]:
    """Return R2 of each latent read off the embeddings by ridge regression with an RBF kernel."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import r2_score
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import StandardScaler

    z, x, z_test, x_test = _halves(latents, embeddings)
    scaler, centre = StandardScaler().fit(x), z.mean(0)
    ridge = GridSearchCV(
        KernelRidge(kernel="rbf"),
        {"alpha": ALPHAS, "gamma": [0.1 / x.shape[1], 1 / x.shape[1]]},
        cv=3,
    )
    ridge.fit(scaler.transform(x), z - centre)  # kernel ridge has no intercept
    predicted = ridge.predict(scaler.transform(x_test)) + centre
    per_factor = r2_score(z_test, predicted, multioutput="raw_values")
    return {"kernel_r2": float(per_factor.mean()), "kernel_r2_per_factor": per_factor}


def dci(latents: np.ndarray, embeddings: np.ndarray, held_out: bool = True) -> dict[str, float]:
    """Return disentanglement, completeness and informativeness (Eastwood and Williams 2018).

    The importances are those of a random forest per latent. Informativeness is the forests' R2.
    """
    from sklearn.ensemble import RandomForestRegressor

    z, x, z_test, x_test = _halves(latents, embeddings)
    importances, r2 = np.zeros((x.shape[1], z.shape[1])), []
    for factor in range(z.shape[1]):
        forest = RandomForestRegressor(TREES, min_samples_leaf=2, random_state=0)
        forest.fit(x, z[:, factor])
        importances[:, factor] = forest.feature_importances_
        r2.append(forest.score(x_test, z_test[:, factor]))
    return {
        "dci_disentanglement": _order(importances),
        "dci_completeness": _order(importances.T),
        "dci_informativeness": float(np.mean(r2)),
    }


def _order(importances: np.ndarray) -> float:
    """Mean over rows of 1 - entropy, in units of a flat row's, weighted by the rows' sums."""
    if importances.shape[1] < 2:
        return 1.0
    sums = importances.sum(1)
    shares = importances / np.where(sums > 0, sums, 1)[:, None]
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    order = 1 + (shares * logs).sum(1) / np.log(importances.shape[1])
    return float(order @ sums / sums.sum()) if sums.sum() > 0 else 0.0


def _halves(latents: np.ndarray, embeddings: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rows to fit and rows to score, evenly spaced over the split."""
    z, x = np.asarray(latents, np.float64), np.asarray(embeddings, np.float64)
    if len(z) < 12:
        raise ValueError(f"`latents` must hold at least 12 rows to fit and score, got {len(z)}.")
    parts = []
    for start in (0, 1):
        rows = np.arange(start, len(z), 2)
        rows = rows[evenly(len(rows), LIMIT)]
        parts += [z[rows], x[rows]]
    return tuple(parts)
