"""`ident3d sheet PATH`."""

from pathlib import Path

import click
import numpy as np

from ..dataset import load, sample
from ..sheets import contact_sheet, nearest_traversal
from .options import examples


@click.command(
    epilog=examples(
        "ident3d sheet 3dident/train --out images.png",
        "ident3d sheet --render --steps 5 --out traversals.png",
    )
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--out", type=click.Path(path_type=Path), default="sheet.png", show_default=True)
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=64, show_default=True,
    help="Images on a contact sheet.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True,
    help="Chooses the rows of a contact sheet.",
)  # fmt: skip
@click.option("--traverse", is_flag=True, help="For each factor, the rows nearest to a line.")
@click.option("--render", "rendered", is_flag=True, help="Render the traversal itself (Blender).")
@click.option(
    "--steps", type=click.IntRange(2, 1000), default=7, show_default=True,
    help="Images per factor of a traversal.",
)  # fmt: skip
@click.option(
    "--resolution", type=click.IntRange(8, 4096), default=96, show_default=True,
    help="Pixels, with --render.",
)  # fmt: skip
def sheet(
    path: Path | None,
    out: Path,
    count: int,
    seed: int,
    traverse: bool,
    rendered: bool,
    steps: int,
    resolution: int,
) -> None:
    """Draw the data set at PATH (default: the sample inside the package) as one picture.

    Without options: rows drawn at random. `--traverse`: one column per factor, the rows nearest to
    a line along it. `--render`: the same with every image rendered exactly on the line; no PATH.
    """
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"`--out` must end in .png or .jpg, got {out}.")
    if rendered and path is not None:
        raise ValueError("`--render` draws new images and takes no PATH; leave one of them out.")
    if rendered:
        from ident3d.render.traversal import render_traversal

        image = render_traversal(steps=steps, resolution=resolution)
    else:
        data = sample() if path is None else load(path)
        if traverse:
            image = nearest_traversal(data, steps)
        else:
            count = min(count, len(data))
            rows = np.sort(np.random.default_rng(seed).choice(len(data), count, replace=False))
            image = contact_sheet(data, rows, columns=round(count**0.5) or 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    image.save(out)
    click.echo(f"Wrote {out} ({image.width} x {image.height}).")
