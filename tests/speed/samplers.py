"""Every conditional's sampler beside a plain one, 6,144 x 10 draws.

`python -m tests.speed.samplers`. The plain samplers redraw until inside, as one writes them first
and as the released code does: coordinates on a box, whole rows for the released shell (the plain
reference of both anisotropic samplers; the exact law has no plain one that ends), one row at a
time for von Mises-Fisher.
"""

import time
from collections.abc import Callable

import numpy as np

from ident3d.conditionals import parse
from ident3d.conditionals._truncated import gennorm
from ident3d.spaces import Box, Sphere, Unbounded, Uniform, project, sample_marginal

ROWS, DIM, GOAL, REPEATS = 6144, 10, 20, 15
HALVES = ",".join(["5"] * 5 + ["25"] * 5)
SWEEP = ",".join(f"{value:.4g}" for value in np.linspace(5, 25, DIM))
EXTREME = ",".join(["0.1"] * 5 + ["400"] * 5)
CASES = [
    ("box", "normal:0.05"),
    ("box", "normal:2"),
    ("box", "laplace:0.05"),
    ("box", "gennorm:3:0.05"),
    ("box", "gennorm:3:2"),
    ("box", f"anisotropic:{HALVES}"),
    ("box", "x=normal:0.1,hue=fixed,others=laplace:0.05"),
    ("box", "fixed"),
    ("sphere", "normal:0.05"),
    ("sphere", "laplace:0.05"),
    ("sphere", "gennorm:3:0.05"),
    ("sphere", "vmf:1"),
    ("sphere", "vmf:400"),
    ("sphere", f"anisotropic:{HALVES}"),
    ("sphere", f"anisotropic:{SWEEP}"),
    ("sphere", f"anisotropic:{','.join(['400'] * DIM)}"),
    ("sphere", f"anisotropic:{EXTREME}"),
    ("sphere", f"anisotropic-shell:{HALVES}"),
    ("unbounded", "normal:1"),
    ("unbounded", "laplace:1"),
    ("unbounded", "gennorm:3:1"),
]
SPACES = {"box": Box(), "sphere": Sphere(), "unbounded": Unbounded()}
Draw = Callable[[np.ndarray], np.ndarray]  # anchors -> positives
Standard = Callable[[tuple[int, ...]], np.ndarray]  # shape -> noise of scale 1


def standard(text: str, rng: np.random.Generator) -> tuple[Standard, np.ndarray] | None:
    """The noise of a text form and its scale on each coordinate, or None where it has none."""
    name, _, rest = text.partition(":")
    numbers = [float(word) for word in rest.replace(",", ":").split(":")] if rest else [0.0]
    draws: dict[str, Standard] = {
        "normal": rng.standard_normal,
        "laplace": lambda shape: rng.laplace(size=shape),
        "gennorm": lambda shape: gennorm(numbers[0], shape, rng),
    }
    if name in draws:
        return draws[name], np.full(DIM, numbers[-1])
    return (rng.standard_normal, 1 / np.sqrt(numbers)) if name.startswith("anis") else None


def plain_box(draw: Standard, scale: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Redraw coordinates until they lie in the box."""
    scale = np.broadcast_to(scale, anchors.shape)
    positives = anchors + scale * draw(anchors.shape)
    while (outside := np.abs(positives) > 1).any():
        positives[outside] = anchors[outside] + scale[outside] * draw((outside.sum(),))
    return positives


def plain_shell(draw: Standard, scale: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Redraw rows until their norm is within 0.1 of 1, and project, as released."""
    positives = anchors + scale * draw(anchors.shape)
    while (outside := np.abs(np.linalg.norm(positives, axis=1) - 1) > 0.1).any():
        positives[outside] = anchors[outside] + scale * draw((outside.sum(), DIM))
    return project(positives)


def plain_vmf(concentration: float, anchors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Wood's rejection (1994), one row after the other."""
    free = anchors.shape[1] - 1
    b = free / (2 * concentration + np.sqrt(4 * concentration**2 + free**2))
    x0 = (1 - b) / (1 + b)
    bound = concentration * x0 + free * np.log(1 - x0**2)
    positives = np.empty_like(anchors)
    for row, anchor in enumerate(anchors):
        while True:
            beta = rng.beta(free / 2, free / 2)
            w = (1 - (1 + b) * beta) / (1 - (1 - b) * beta)
            if concentration * w + free * np.log(1 - x0 * w) - bound >= np.log(rng.random()):
                break
        tangent = rng.standard_normal(len(anchor))
        tangent -= tangent @ anchor * anchor
        positives[row] = w * anchor + np.sqrt(1 - w**2) * tangent / np.linalg.norm(tangent)
    return positives


def plain(space: str, text: str, rng: np.random.Generator) -> Draw | None:
    """The plain sampler of one case, or None."""
    if text.startswith("vmf"):
        return lambda anchors: plain_vmf(float(text[4:]), anchors, rng)
    # At concentrations of 0.1 the released sampler keeps about no draw at all.
    if "=" in text or "0.1" in text or (found := standard(text, rng)) is None:
        return None
    draw, scale = found
    if space == "box":
        scale = scale / np.sqrt(2) if text.startswith("anis") else scale
        return lambda anchors: plain_box(draw, scale, anchors)
    if text.startswith("anis"):
        return lambda anchors: plain_shell(draw, scale, anchors)
    finish = project if space == "sphere" else np.asarray
    return lambda anchors: finish(anchors + scale * draw(anchors.shape))


def shorten(text: str, width: int) -> str:
    """Cut a text that is too long for its column."""
    return text if len(text) <= width else text[: width - 3] + "..."


def milliseconds(draw: Draw, anchors: np.ndarray, repeats: int) -> float:
    """Best time of `repeats` calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        draw(anchors)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    """Print the table."""
    print(f"{ROWS} x {DIM} draws, best of {REPEATS}; goal: at most {GOAL} ms")
    print(f"{'space':10}{'conditional':46}{'ours':>9}{'plain':>11}{'faster':>9}")
    rng = np.random.default_rng(0)
    for name, text in CASES:
        space, conditional = SPACES[name], parse(text)
        anchors = sample_marginal(
            Uniform(), Box() if name == "unbounded" else space, ROWS, DIM, rng
        )
        ours = milliseconds(lambda z: conditional.sample(z, rng, space), anchors, REPEATS)  # noqa: B023
        reference = plain(name, text, rng)
        slow = milliseconds(reference, anchors, 2) if reference else None
        beside = f"{slow:8.1f} ms{slow / ours:8.1f}x" if slow else f"{'-':>11}{'-':>9}"
        over = "" if ours <= GOAL else "   over"
        print(f"{name:10}{shorten(text, 45):46}{ours:6.1f} ms{beside}{over}")


if __name__ == "__main__":
    main()
