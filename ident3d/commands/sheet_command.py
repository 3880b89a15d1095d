"""`ident3d sheet PATH`."""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from ..dataset import load, sample
from ..sheets import contact_sheet, nearest_traversal
from .options import examples, option, options_of


@dataclass(frozen=True)
class SheetOptions:
    """What is drawn, and how large."""

    out: Path = option(Path("sheet.png"), "", type=click.Path(path_type=Path))
    count: int = option(64, "Images on a contact sheet.", type=click.IntRange(1, 10_000))
    seed: int = option(0, "Chooses the rows of a contact sheet.", type=click.IntRange(0))
    traverse: bool = option(False, "For each factor, the rows nearest to a line.")
    render: bool = option(False, "Render the traversal itself (Blender).")
    steps: int = option(7, "Images per factor of a traversal.", type=click.IntRange(2, 1000))
    resolution: int = option(96, "Pixels, with --render.", type=click.IntRange(8, 4096))


@click.command(
    epilog=examples(
        "ident3d sheet 3dident/train --out images.png",
        "ident3d sheet --render --steps 5 --out traversals.png",
    )
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@options_of(SheetOptions)
def sheet(asked: SheetOptions, path: Path | None) -> None:
    """Draw the data set at PATH (default: the sample inside the package) as one picture.

    Without options: rows drawn at random. `--traverse`: one column per factor, the rows nearest to
    a line along it. `--render`: the same with every image rendered exactly on the line; no PATH.
    """
    out = asked.out
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"`--out` must end in .png or .jpg, got {out}.")
    if asked.render and path is not None:
        raise ValueError("`--render` draws new images and takes no PATH; leave one of them out.")
    if asked.render:
        from ident3d.render.traversal import render_traversal

        image = render_traversal(steps=asked.steps, resolution=asked.resolution)
    else:
        data = sample() if path is None else load(path)
        if asked.traverse:
            image = nearest_traversal(data, asked.steps)
        else:
            count, rng = min(asked.count, len(data)), np.random.default_rng(asked.seed)
            rows = np.sort(rng.choice(len(data), count, replace=False))
            image = contact_sheet(data, rows, columns=round(count**0.5) or 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    image.save(out)
    click.echo(f"Wrote {out} ({image.width} x {image.height}).")
