"""Which files a data set is made of, what is there already, and whether it may be continued."""

import os
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import DataError, whole
from ident3d.files import Lock
from ident3d.outside import read_sealed, write_sealed
from ident3d.shards import MANIFEST, Description, ShardWriter, read_manifest, shard_name
from ident3d.shards.contents import Columns, check_columns
from ident3d.shards.manifest import check_no_others, check_split_name, write_manifest_locked
from ident3d.shards.reader import read_columns

from .spec import Spec

MOST_ROWS = 10**9  # of a split: at 64 px and a second an image, 12 TB and thirty years
MOST_FILES = 100_000


@dataclass(frozen=True)
class ShardTask:
    """One file to be rendered: a shard of anchors, or of the same rows' positives."""

    number: int
    kind: str  # "shard" or "pairs"
    start: int  # first row
    stop: int

    @property
    def name(self) -> str:
        """The file's name."""
        return shard_name(self.number, self.kind)

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return self.stop - self.start


@dataclass(frozen=True)
class Plan:
    """The files of one split and what goes into them."""

    root: Path
    spec: Spec
    description: Description
    counts: tuple[int, ...]  # rows of each shard

    @property
    def folder(self) -> Path:
        """The split's folder."""
        return self.root / self.spec.split

    def tasks(self, share: tuple[int, int] = (1, 1)) -> list[ShardTask]:
        """List the files of this machine's share, `(1, 3)` being the first of three."""
        index, shares = share
        stops = np.cumsum(self.counts).tolist()
        return [
            ShardTask(number, kind, stop - count, stop)
            for number, (count, stop) in enumerate(zip(self.counts, stops, strict=True))
            if number % shares == index - 1
            for kind in (("pairs", "shard") if self.spec.pairs else ("shard",))
        ]

    def done(self, task: ShardTask) -> bool:
        """Tell whether a file is finished."""
        return (self.folder / task.name).exists()

    def count(self, tasks: list[ShardTask]) -> tuple[int, int]:
        """Count the images of some files, and those of the finished ones among them."""
        return sum(task.rows for task in tasks), sum(t.rows for t in tasks if self.done(t))

    @property
    def names(self) -> list[str]:
        """The names of all its files."""
        return [task.name for task in self.tasks()]

    @property
    def kept(self) -> Path:
        """Where the plan is kept until the manifest takes its place."""
        return self.folder / ".work" / "plan"

    def columns(self, task: ShardTask, drawn: int | None = None) -> Columns:
        """Tell what a file must hold: rows, latents (the first `drawn` alone), shape of images."""
        rows = np.arange(task.start, task.stop)
        draw = self.spec.positives if task.kind == "pairs" else self.spec.anchors
        shape = (task.rows, self.spec.resolution, self.spec.resolution, 3)
        return Columns(rows, draw(rows[:drawn]), None, None, shape)

    def open(self, task: ShardTask) -> ShardWriter:
        """Claim a file for this process; raises `files.Busy` while another one has it."""
        if not self.kept.exists():  # or the writer would make a removed folder again
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(self.kept))
        columns, path = self.columns(task), self.folder / task.name
        height, width, channels = columns.shape[1:]
        return ShardWriter(
            path,
            columns.rows,
            columns.latents,
            (height, width, channels),
            self.description,
            self.spec.compress,
        )

    def check_finished(self) -> None:
        """Raise DataError if a file under its final name does not hold what it should."""
        for task in filter(self.done, self.tasks()):
            drawn = 8 if task.kind == "pairs" else None  # all of a quarter million take a minute
            check_columns(self.folder / task.name, self.columns(task, drawn))


def check_amount(size: int, shard_size: int) -> None:
    """Raise ValueError unless so many rows can be put into files of so many."""
    whole(size, "size", 1, MOST_ROWS)
    whole(shard_size, "shard_size", max(1, -(-size // MOST_FILES)), MOST_ROWS)


def make_plan(root: Path, spec: Spec, size: int, shard_size: int, command: str) -> Plan:
    """Plan `size` rows, continuing or growing what the folder holds. Writes nothing.

    Files already begun keep their rows; `shard_size` is for new ones.
    """
    check_split_name(spec.split)
    check_amount(size, shard_size)
    plan = Plan(root, spec, spec.description(command), ())
    if begun := _begun(root, spec.split):
        refuse_differences(plan.folder, begun["description"], plan.description.to_record())
        description = Description.from_record(begun["description"])
        if size > sum(begun["counts"]):  # the command that makes all of it is this one
            description = replace(description, command=command)
        plan = replace(plan, description=description, counts=tuple(begun["counts"]))
    planned = sum(plan.counts)
    if size < planned:
        raise ValueError(
            f"`size` must not shrink: {plan.folder} has {planned:,} rows, asked for {size:,}. "
            "Another folder or split takes a smaller one."
        )
    plan = replace(plan, counts=plan.counts + shard_rows(planned, size, shard_size))
    _check_given(plan)
    return plan


def shard_rows(planned: int, size: int, shard_size: int) -> tuple[int, ...]:
    """Return the rows of each file that takes a split from `planned` rows to `size`."""
    return tuple(min(shard_size, size - start) for start in range(planned, size, shard_size))


def begin(root: Path, spec: Spec, size: int, shard_size: int, command: str) -> Plan:
    """Plan, and keep the plan in `.work/plan` until the manifest takes its place.

    Later runs, and those that go on at the same time, agree on it.
    """
    check_split_name(spec.split)  # before a folder is made of it
    root.mkdir(parents=True, exist_ok=True)
    with Lock(root / ".lock", wait=True):  # the one that `write_manifest` takes
        plan = make_plan(root, spec, size, shard_size, command)
        check_no_others(plan.folder, plan.names)  # before hours of rendering, not after them
        plan.kept.parent.mkdir(parents=True, exist_ok=True)
        record = {"description": plan.description.to_record(), "counts": list(plan.counts)}
        if not plan.kept.exists() or record != _begun(root, spec.split):
            write_sealed(plan.kept, record)
    return plan


def declare(plan: Plan) -> bool:
    """Write the manifest if every file is there; shares leave that to the last to finish."""
    if not all(map(plan.done, plan.tasks())):
        return False
    with Lock(plan.root / ".lock", wait=True):
        begun = _begun(plan.root, plan.spec.split)
        if begun is not None and sum(begun["counts"]) > sum(plan.counts):
            # A larger run declares the whole, and needs its `.work` until then.
            return not plan.kept.exists()
        write_manifest_locked(plan.root, plan.spec.split, plan.description, plan.names)
    return True


def refuse_differences(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raise ValueError naming every setting in which a command differs from what it continues."""
    old, new = _settings(old), _settings(new)
    named = [
        f"{name} {_show(old.get(name))} (now {_show(new.get(name))})"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if named:
        raise ValueError(
            f"{folder} was begun with {', '.join(named)}. Continue with the same settings, "
            "or render to another folder or split."
        )


def _begun(root: Path, split: str) -> dict[str, Any] | None:
    """Find what an earlier run planned: in its plan, or, once finished, in the manifest."""
    path = root / split / ".work" / "plan"
    if path.exists():
        try:
            begun = read_sealed(path, older=lambda plan: plan.keys() == {"description", "counts"})
            Description.from_record(begun["description"])
            return begun | {"counts": list(map(int, begun["counts"]))}
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error!r}); remove it to plan anew.") from None
    splits = read_manifest(root)["splits"] if (root / MANIFEST).exists() else {}
    if split not in splits:
        return None
    counts = [shard["rows"] for shard in splits[split]["shards"]]
    return {"description": splits[split]["description"], "counts": counts}


def _check_given(plan: Plan) -> None:
    """Given latents must agree with those of finished shards; drawn ones do by their seed."""
    if plan.spec.given is None:
        return
    for task in filter(plan.done, plan.tasks()):
        stored = read_columns(plan.folder, [{"name": task.name, "rows": task.rows}], "latents")
        differ = (stored != plan.spec.given[task.start : task.stop]).any(axis=1)
        if task.kind == "shard" and differ.any():
            row = task.start + int(differ.argmax())
            raise ValueError(
                f"`latents` must begin with the rows that {plan.folder} holds; row {row} differs."
            )


def _settings(record: dict[str, Any]) -> dict[str, Any]:
    """Flatten a description to what must be equal; the command's text need not."""
    plain = {name: record[name] for name in ("seed", "pairs", "factors")}
    return {**plain, **record["settings"]} | {"varied": record["settings"].get("factors")}


def _show(value: Any) -> str:
    return "none" if value is None or value == "" else str(value)
