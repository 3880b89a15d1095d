"""What a data set's files depend on: every row's latents, its positive, and how it is rendered."""

import os
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np

from ident3d.conditionals import Conditional, parse
from ident3d.errors import choose
from ident3d.factors import FACTORS, columns
from ident3d.rows import row_generator, row_latents
from ident3d.shards import Description
from ident3d.spaces import Box, number

from .blender import Gpu, Renderer, blender_version
from .presets import Quality
from .scene import HUES, SceneState, scene_state


@dataclass(frozen=True)
class RenderSettings:
    """What a worker needs to know of a spec: how a row of latents becomes an image."""

    quality: Quality
    resolution: int
    hue: str
    verbose: bool = False

    def renderer(self, threads: int, gpu: Gpu | None) -> Renderer:
        """Load Blender and build the scene."""
        os.environ["OIDN_NUM_THREADS"] = str(threads)  # before Blender loads; 0 is all
        return Renderer(self.quality, self.resolution, threads, gpu, self.verbose)

    def state(self, latents: np.ndarray) -> SceneState:
        """Compute the scene of one row of unit latents, shape (10,)."""
        return scene_state(latents, self.hue)


@dataclass(frozen=True)
class Spec:
    """Equal specs make equal files, on whatever machine and in whatever order."""

    quality: Quality
    resolution: int = 224  # pixels along each side
    hue: str = "injective"  # name of the convention
    split: str = "train"
    seed: int = 0  # of the latents and of the positives
    factors: str = "all"  # those that vary, or groups, as `ident3d.factors.columns` takes them
    held: dict[str, float] = field(default_factory=dict)  # unit latents of others; 0 if not here
    pairs: str | None = None  # the conditional of the rendered positives; None for no positives
    given: np.ndarray | None = None  # latents of all rows, shape (n, 10), instead of drawn ones
    compress: bool = False  # store one zstd chunk per image

    def __post_init__(self) -> None:
        choose(HUES, self.hue, "hue")
        varied = self._varied
        names = [factor.name for factor in FACTORS]
        for name, value in self.held.items():
            choose(dict.fromkeys(names), name, "hold")
            if names.index(name) in varied:
                raise ValueError(
                    f"`hold` must name factors that do not vary; {name} does. "
                    "Name the varying ones with `factors`."
                )
            if not -1 <= value <= 1:
                raise ValueError(f"`hold` must give unit latents in [-1, 1], got {name}={value}.")
        if self.given is not None and (self.held or len(varied) < len(FACTORS)):
            raise ValueError("`latents` gives every factor; leave `factors` and `hold` out.")
        if self._conditional is not None:  # a conditional of another space fails here, not later
            self._conditional.sample(np.zeros((1, len(FACTORS))), np.random.default_rng(0), Box())

    def render_settings(self, verbose: bool = False) -> RenderSettings:
        """Keep what workers need; `verbose` lets Blender print."""
        return RenderSettings(self.quality, self.resolution, self.hue, verbose)

    def anchors(self, rows: np.ndarray) -> np.ndarray:
        """Unit latents of the given rows, float32 (n, 10)."""
        if self.given is not None:
            return self.given[rows]
        return self._hold(row_latents(self.seed, self.split, rows, len(FACTORS)))

    def positives(self, rows: np.ndarray) -> np.ndarray:
        """Unit latents of the rows' positives, float32 (n, 10), drawn from each row's own stream.

        Factors that are held are held here too.
        """
        assert self._conditional is not None
        anchors = self.anchors(rows)
        drawn = np.empty_like(anchors)
        for anchor, positive, row in zip(anchors, drawn, rows.tolist(), strict=True):
            rng = row_generator(self.seed, self.split, row, "pairs")
            positive[:] = self._conditional.sample(anchor[None].astype(np.float64), rng, Box())[0]
        # Rounding to float32 may step over the edge of the box by half a digit.
        return self._hold(drawn.clip(-1, 1))

    def description(self, command: str | None = None) -> Description:
        """Describe the data set for shards and manifest."""
        settings = {
            "renderer": "cycles",
            "blender": blender_version(),
            "resolution": self.resolution,
            "hue": self.hue,
            **asdict(self.quality),
            "latents": "drawn" if self.given is None else "given",
            "factors": ",".join(FACTORS[column].name for column in self._varied),
            "held": ",".join(
                f"{name}={number(value)}" for name, value in sorted(self.held.items())
            ),
            "pairs_seed": self.seed if self.pairs else -1,
            "compress": self.compress,
        }
        return Description(
            seed=self.seed if self.given is None else None,
            settings=settings,
            pairs=None if self._conditional is None else str(self._conditional),
            command=command,
        )

    @cached_property
    def _varied(self) -> list[int]:
        return columns(self.factors)

    @cached_property
    def _conditional(self) -> Conditional | None:
        return None if self.pairs is None else parse(self.pairs)

    def _hold(self, latents: np.ndarray) -> np.ndarray:
        for column, factor in enumerate(FACTORS):
            if column not in self._varied:
                latents[:, column] = self.held.get(factor.name, 0.0)
        return latents
