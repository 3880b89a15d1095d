"""`ident3d benchmark pack` makes an entry from results; `verify` computes its scores again."""

from pathlib import Path

import click

from ident3d.commands.options import echo, examples, json_option, table


@click.command(
    epilog=examples("ident3d benchmark pack results/seed-0.json results/seed-1.json --out my-entry")
)
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The entry's folder.")
@click.option("--encoders", is_flag=True, help="Pack the trained encoders, too.")
def pack(records: tuple[Path, ...], out: Path, encoders: bool) -> None:
    """Pack RECORDS, one result file per seed, with their embeddings into one entry folder."""
    from ..results.entries import pack

    folder = pack(records, out, encoders)
    size = sum(path.stat().st_size for path in folder.iterdir())
    count = f"{len(records)} seed" + "s" * (len(records) > 1)
    click.echo(f"Packed {count} into {folder} ({size / 1e6:.1f} MB).")


@click.command(epilog=examples("ident3d benchmark verify my-entry --data 3dident/test"))
@click.argument("entry", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="The split scored.")
@json_option
def verify(entry: Path, data: Path, as_json: bool) -> None:
    """Compute every score of ENTRY from its embeddings; refuse what does not agree."""
    from ident3d.dataset import load

    from ..report.tables import show
    from ..results.verification import verify
    from ..scoring import describe

    checked = verify(entry, load(data))
    record = {"entry": str(entry), "verified": True, "seeds": checked}
    names = [name for name, value in checked[0]["scores"].items() if not isinstance(value, dict)]
    rows = [
        [str(one["seed"]), *(show(name, one["scores"][name]) for name in names)] for one in checked
    ]
    shown = table(rows, ["seed", *(describe(name).label for name in names)])
    agreed = f"{entry} agrees with its embeddings and with {data}; scores of 0 to 1 in percent."
    echo(record, f"{shown}\n{agreed}", as_json)
