"""One random fault of each kind, injected into a copy of a specimen.

An injector takes a generator, the specimens and an empty folder. It returns what came of the fault
in a few words, or fails if a promise was broken. `make test` runs each a fixed number of times,
`make soak` as often as the time allows.
"""

import contextlib
import csv
import hashlib
import io
import json
import multiprocessing
import os
import shlex
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from ident3d.benchmark.results import load as load_record
from ident3d.benchmark.results.verification import verify as verify_entry
from ident3d.benchmark.training import checkpoints
from safetensors.torch import save_file

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.files import canonical_sha256
from ident3d.index import Index
from ident3d.published.catalogue import CATALOGUE
from ident3d.published.downloading import download
from ident3d.published.png import decode_png
from tests.faults import hostile
from tests.faults.calling import call, one_sentence, refused
from tests.faults.command_lines import LINES
from tests.faults.world import World, training
from tests.support.helpers import painted, painted_row
from tests.support.published_sets import MULTIMODAL_COLUMNS, multimodal_table, png, write_folder
from tests.support.server import DATA, Behaviour, serving

Injector = Callable[[np.random.Generator, World, Path], str]
INJECTORS: dict[str, Injector] = {}
REFUSED = "refused in one sentence"
FORK = multiprocessing.get_context("fork")


def injector(kind: str) -> Callable[[Injector], Injector]:
    """Enter a function as the injector of a kind."""

    def enter(function: Injector) -> Injector:
        INJECTORS[kind] = function
        return function

    return enter


def pick(rng: np.random.Generator, choices):
    choices = list(choices)
    return choices[int(rng.integers(len(choices)))]


# Texts: whatever JSON says that is not of the right form, it is refused where it is read.


def into_manifest(content: bytes, world: World, folder: Path) -> str:
    path = world.copy("data", folder)
    (path / "dataset.json").write_bytes(content)
    command = ("info", "verify", "sheet", "index")[len(content) % 4]
    return refused(command, path)


def into_index(content: bytes, world: World, folder: Path) -> str:
    path = world.copy("data", folder)
    (path / "train" / "index.json").write_bytes(content)
    one_sentence(Index.load, load(path))
    return refused("verify", path)


def into_plan(content: bytes, world: World, folder: Path) -> str:
    work = folder / "new" / "train" / ".work"
    work.mkdir(parents=True)
    (work / "plan").write_bytes(content)
    return refused("render", folder / "new", "--size", 5)


def into_record(content: bytes, world: World, folder: Path) -> str:
    path = world.copy("record", folder)
    path.write_bytes(content)
    refused("benchmark", "pack", path, "--out", folder / "packed")
    return one_sentence(load_record, path)


def into_entry(content: bytes, world: World, folder: Path) -> str:
    path = world.copy("entry", folder)
    (path / "entry.json").write_bytes(content)
    return refused("benchmark", "verify", path, "--data", world.data)


def into_export(content: bytes, world: World, folder: Path) -> str:
    path = world.copy("exported", folder)
    (path / "ident3d.json").write_bytes(content)
    return refused("import", path, folder / "out")


def into_checkpoint(content: bytes, world: World, folder: Path) -> str:
    path = folder / "checkpoint"
    modules, optimizer = training()
    header = {"ident3d-checkpoint": content.decode("utf-8", "replace")}
    save_file({"module.encoder.bias": modules["encoder"].bias}, path, metadata=header)
    return one_sentence(checkpoints.restore, path, modules, optimizer)


JSON_FILES = (
    *(into_manifest, into_index, into_plan, into_record, into_entry, into_export),
    into_checkpoint,
)


@injector("hostile JSON")
def hostile_json(rng: np.random.Generator, world: World, folder: Path) -> str:
    pick(rng, JSON_FILES)(pick(rng, hostile.JSON.values()), world, folder)
    return REFUSED


@injector("a hostile manifest")
def hostile_manifest(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = world.copy("data", folder)
    content = hostile.nearly_json((path / "dataset.json").read_bytes(), rng)
    manifest = json.loads(content)
    manifest.pop("sha256", None)
    manifest["sha256"] = canonical_sha256(manifest)
    (path / "dataset.json").write_text(json.dumps(manifest))
    codes = [call(command, path).code for command in ("info", "verify")]
    codes.append(call("sheet", path, "--out", folder / "sheet.png").code)
    if 0 in codes:  # what nothing depends on, such as a setting, may be anything
        assert np.array_equal(painted_row(load_if(path).images[:]), np.arange(60))
        return "the rows served are right"
    return REFUSED


def load_if(path: Path):
    """Open a data set that may have gained other splits in its manifest."""
    try:
        return load(path)
    except ValueError:
        return load(path / "train")


# Arrays.


@injector("a hostile .npy file")
def hostile_npy(rng: np.random.Generator, world: World, folder: Path) -> str:
    name = pick(rng, hostile.NPY)
    content, path = hostile.NPY[name], folder / "array.npy"
    path.write_bytes(content)
    where = rng.integers(4)
    if where == 0:
        source = world.copy("published", folder)
        (source / "3dident" / "train" / "raw_latents.npy").write_bytes(content)
        refused("import", source, folder / "out")
    elif where == 1:
        refused("render", folder / "new", "--latents", path)
    elif where == 2:
        refused("benchmark", "score", "--data", world.data, "--embeddings", path)
    else:
        entry = world.copy("entry", folder)
        (entry / "embeddings-s0.npy").write_bytes(content)
        refused("benchmark", "verify", entry, "--data", world.data)
    assert not (folder / "pwned").exists()
    return REFUSED


@injector("arrays that are not real numbers")
def unreal_arrays(rng: np.random.Generator, world: World, folder: Path) -> str:
    from ident3d import metrics

    real = rng.normal(size=(60, 3))
    wrong = pick(
        rng,
        (
            real * 1j, real.astype(str), real.astype(object), np.zeros((60, 3), "M8[s]"),
            np.where(real > 2, np.nan, real) + np.nan, real * np.inf, real[:, 0], real[:10],
            np.empty((60, 0)), np.empty((0, 3)), None, "text",
        ),
    )  # fmt: skip
    score = pick(rng, (metrics.linear_r2, metrics.mcc, metrics.mcc_matrix))
    one_sentence(score, *pick(rng, [(real, wrong), (wrong, real)]))
    return REFUSED


@injector("numbers at the edge of floats")
def extreme_numbers(rng: np.random.Generator, world: World, folder: Path) -> str:
    from ident3d import metrics

    z = rng.normal(size=(60, 3))
    z_hat = z @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(60, 3))
    score = pick(rng, (metrics.linear_r2, metrics.mcc))
    plain = score(z, z_hat)
    scales = 10.0 ** rng.integers(-300, 300, size=3)
    assert np.isclose(score(z, z_hat * scales), plain, rtol=1e-6)
    assert np.isclose(score(z * scales, z_hat), plain, rtol=1e-6)
    return "the same score"


@injector("a pickle")
def pickles(rng: np.random.Generator, world: World, folder: Path) -> str:
    mark = folder / "executed"
    content = hostile.bomb(mark)
    where = pick(rng, (*JSON_FILES, "shard", "archive", "latents", "embeddings", "weights"))
    path = folder / "pickle"
    path.write_bytes(content)
    if where == "shard":
        data = world.copy("data", folder)
        (data / "train" / "shard-00000.h5").write_bytes(content)
        refused("sheet", data, "--out", folder / "sheet.png")
    elif where == "archive":
        refused("import", path, folder / "out")
    elif where == "latents":
        refused("render", folder / "new", "--latents", path)
    elif where == "embeddings":
        refused("benchmark", "score", "--data", world.data, "--embeddings", path)
    elif where == "weights":
        score = ("benchmark", "score", "--data", world.data, "--encoder", "torch.nn:Flatten")
        refused(*score, "--weights", path)
    else:
        where(content, world, folder)
    assert not mark.exists(), "a pickle was executed"
    return "refused, not executed"


# Archives of published data, and what is in them.


def import_or_refuse(source: Path, folder: Path) -> str:
    """Import: refused with no shard under its final name, or every row as it was published."""
    called = call("import", source, folder / "out", "--split", "train")
    if called.code:
        assert called.sentence
        assert not (folder / "out" / "dataset.json").exists()
        return REFUSED
    data = load(folder / "out")
    assert painted_row(data.images[:]).tolist() == list(range(12))
    return "imported, every row right"


@injector("a hostile tar")
def hostile_tar(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = folder / "set.tar"
    path.write_bytes(hostile.damage(world.tar.read_bytes(), rng))
    return import_or_refuse(path, folder)


@injector("a hostile gzip stream")
def hostile_gzip(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = folder / "set.tar.gz"
    path.write_bytes(hostile.damage(world.gzip.read_bytes(), rng))
    return import_or_refuse(path, folder)


@injector("a hostile PNG")
def hostile_png(rng: np.random.Generator, world: World, folder: Path) -> str:
    row = int(rng.integers(12))
    content = pick(rng, (*hostile.PNG.values(), *[None] * len(hostile.PNG)))
    if content is None:
        content = hostile.flip(png(painted(row)), rng)  # every byte of it is covered by a checksum
    one_sentence(decode_png, content, f"{row}.png", (8, 8, 3))
    source = world.copy("published", folder)
    (source / "3dident" / "train" / "images" / f"{row:02d}.png").write_bytes(content)
    assert import_or_refuse(source, folder) == REFUSED
    return REFUSED


@injector("a hostile CSV")
def hostile_csv(rng: np.random.Generator, world: World, folder: Path) -> str:
    table = {name: list(column) for name, column in multimodal_table(13).items()}
    column, row = pick(rng, MULTIMODAL_COLUMNS), int(rng.integers(13))
    wrong = ("", "x", "nan", "inf", "1e999", "-5", "0x10", "1,5", '"', "\0", "9" * 5000, "٣")
    table[column][row] = pick(rng, wrong)
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    content = stream.getvalue().encode()
    if rng.integers(2):
        content = hostile.damage(content, rng)
    files = {f"m3di/val/images/{n:02d}.png": png(painted(n)) for n in range(13)}
    files["m3di/val/latents_image.csv"] = content
    source = write_folder(folder / "raw", files)
    called = call("import", source, folder / "out")
    if called.code:
        assert called.sentence
        return REFUSED
    assert (np.abs(load(folder / "out").latents) <= 1).all()
    return "imported, every latent in its box"


@injector("a hostile safetensors file")
def hostile_safetensors(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = folder / "weights"
    content = world.checkpoint.read_bytes()
    size = int.from_bytes(content[:8], "little")
    headers = (
        *(
            b"[" * 100_000,
            b"{" * 1000,
            b'{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 9e9]}}',
        ),
        *(b'{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}', b"{}", b""),
        *(hostile.damage(content[8 : 8 + size], rng) for _ in range(6)),
    )
    header = pick(rng, headers)
    length = pick(rng, (len(header), len(header), 0, 2**63, 2**30))
    path.write_bytes(length.to_bytes(8, "little") + header + content[8 + size :])
    score = ("benchmark", "score", "--data", world.data, "--encoder", "torch.nn:Flatten")
    refused(*score, "--weights", path)
    one_sentence(checkpoints.restore, path, *training())
    return REFUSED


# What a command line and a server may get wrong.


@injector("a wrong command line")
def wrong_line(rng: np.random.Generator, world: World, folder: Path) -> str:
    (folder / "data").symlink_to(world.data)
    (folder / "file").write_text("just text")
    (folder / "empty").mkdir()
    before = sorted(folder.iterdir())
    with contextlib.chdir(folder):
        refused(*shlex.split(pick(rng, LINES)))
    assert sorted(folder.iterdir()) == before
    return "one sentence, exit 1 or 2, nothing written"


@injector("an HTTP fault")
def http_fault(rng: np.random.Generator, world: World, folder: Path) -> str:
    whole, name = DATA[:60_000], "random-fault"
    known = pick(rng, (None, hashlib.md5(whole).hexdigest()))
    faults = {
        "most": pick(rng, (1 << 30, 20_000, 50_000)),
        "ranges": pick(rng, (True, False)),
        "etag": pick(rng, (None, '"v1"', 'W/"weak"')),
        "statuses": rng.choice([500, 503, 429, 404, 403, 302], rng.integers(3)).tolist(),
        "shift": pick(rng, (0, 0, -500, 500)),
        "length": pick(rng, (True, False)),
        "chunked": pick(rng, (True, False)),
        "total": pick(rng, (True, False)),
        "part": pick(rng, (1 << 30, 9_000)),
    }
    (folder / "set.tar.part").write_bytes(whole[: int(rng.integers(30_000))])
    published = replace(CATALOGUE["3dident"], record=1, archives={"train": ("set.tar", known)})
    with patch.dict(CATALOGUE, {name: published}), serving(Behaviour(data=whole, **faults)) as url:
        try:
            download(name, folder, url=url, pause=0.001)
        except DataError as error:
            assert "\n" not in str(error)
    if not (folder / "set.tar").exists():
        return "not under its final name"
    assert (folder / "set.tar").read_bytes() == whole, faults
    return "whole"


@injector("readers by thread, fork and spawn")
def readers(rng: np.random.Generator, world: World, folder: Path) -> str:
    data = load(pick(rng, (world.data, world.zipped)))
    rows = rng.integers(len(data), size=(6, 40))
    _ = data.images[0]  # open here, so that children inherit what they must not use
    pool = pick(rng, (ThreadPoolExecutor(6), ProcessPoolExecutor(2, FORK)))
    with pool:
        found = list(pool.map(data.images.__getitem__, rows))
    assert np.array_equal(painted_row(np.array(found)), rows)
    return "every row right"


# Flips.


@injector("a flipped bit in a record or entry")
def flipped_record(rng: np.random.Generator, world: World, folder: Path) -> str:
    if rng.integers(3) == 0:
        path = world.copy("record", folder)
        path.write_bytes(hostile.flip(path.read_bytes(), rng))
        try:
            load_record(path)
        except DataError as error:
            assert "\n" not in str(error)
            return REFUSED
        return "read as a valid record"
    entry = world.copy("entry", folder)
    path = pick(rng, sorted(entry.iterdir()))
    path.write_bytes(hostile.flip(path.read_bytes(), rng))
    one_sentence(verify_entry, entry, load(world.data))
    return REFUSED


@injector("a flipped bit in a checkpoint")
def flipped_checkpoint(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = world.copy("checkpoint", folder)
    path.write_bytes(hostile.flip(path.read_bytes(), rng))
    one_sentence(checkpoints.restore, path, *training())
    return REFUSED


@injector("a flipped bit in an index")
def flipped_index(rng: np.random.Generator, world: World, folder: Path) -> str:
    data = load(world.copy("data", folder))
    path = data.path / pick(rng, ("index.json", "index.json", "index.faiss"))
    path.write_bytes(hostile.flip(path.read_bytes() or b"\0", rng))
    one_sentence(Index.load, data)
    assert call("verify", data.path).code == 1
    return "refused, and named by verify"


@injector("a flipped bit under a reader")
def flipped_shard(rng: np.random.Generator, world: World, folder: Path) -> str:
    root = world.copy(pick(rng, ("data", "zipped")), folder)
    path = pick(rng, sorted((root / "train").glob("*.h5")))
    path.write_bytes(hostile.flip(path.read_bytes(), rng))
    assert call("verify", root).code == 1
    picture = ("--out", folder / "sheet.png")
    commands = (("sheet", *picture), ("sheet", "--traverse", *picture), ("info",), ("index",))
    command = pick(rng, (*commands, ("audit", "--pairs", 50, "--conditional", "normal:0.3")))
    called = call(command[0], root, *command[1:])
    if called.code:
        assert called.sentence
        return "one sentence, and named by verify"
    return "named by verify"


# What a terminal, a waiting process and a page must not get.


@injector("escape sequences in a stranger's text")
def escapes(rng: np.random.Generator, world: World, folder: Path) -> str:
    path = world.copy("data", folder)
    manifest = json.loads((path / "dataset.json").read_text())
    manifest.pop("sha256")
    about = manifest["splits"]["train"]["description"]
    text = pick(rng, hostile.ESCAPES)
    place = rng.integers(6)
    if place < 3:
        about["factors"][int(rng.integers(10))][("name", "group", "unit")[place]] = text
    elif place == 3:
        about["settings"] = {text: text}
    elif place == 4:
        about["pairs"] = text
    else:
        about["class_names"] = [text, text]
    manifest["sha256"] = canonical_sha256(manifest)
    (path / "dataset.json").write_text(json.dumps(manifest))
    for command in (("info",), ("info", "--json"), ("verify",), ("audit", "--pairs", 50)):
        call(command[0], path, *command[1:])  # which looks for control characters
    assert repr(load(path)).isprintable()
    return "shown as text"


@injector("a pipe or device in place of a file")
def pipes(rng: np.random.Generator, world: World, folder: Path) -> str:
    def instead(path: Path) -> Path:
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.integers(2):
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    where = rng.integers(8)
    if where == 0:
        data = world.copy("data", folder)
        instead(data / "dataset.json")
        refused(pick(rng, ("info", "verify", "sheet")), data)
    elif where == 1:
        refused("import", instead(folder / "set.tar"), folder / "out")
    elif where == 2:
        one_sentence(load_record, instead(folder / "record.json"))
    elif where == 3:
        refused("render", folder / "new", "--latents", instead(folder / "z.npy"))
    elif where == 4:
        array = instead(folder / "z.npy")
        refused("benchmark", "score", "--data", world.data, "--embeddings", array)
    elif where == 5:
        data = world.copy("data", folder)
        instead(data / "train" / "shard-00000.h5")
        refused("sheet", data, "--out", folder / "sheet.png")
    elif where == 6:
        data = world.copy("data", folder)
        instead(data / "train" / pick(rng, ("index.json", "index.faiss")))
        assert call("verify", data).code == 1
    else:
        score = ("benchmark", "score", "--data", world.data, "--encoder", "torch.nn:Flatten")
        refused(*score, "--weights", instead(folder / "weights"))
    return "refused at once"


@injector("a record with absurd numbers")
def absurd_record(rng: np.random.Generator, world: World, folder: Path) -> str:
    from tests.support.samples import record

    record(method="sane").save(folder / "results")
    path = record(method="absurd").save(folder / "results")
    found = json.loads(path.read_text())
    value = pick(rng, (1e308, -1e308, 1e200, 1e99, -1e99, 1e-320, 10**18, -(10**18)))
    place = pick(
        rng, ("r2", "r2_per_factor", "curves", "metric", "correlation", "points", "seconds")
    )
    if place == "r2":
        found["scores"]["r2"] = value
    elif place == "r2_per_factor":
        found["scores"][place] = dict.fromkeys(found["scores"][place], value)
    elif place == "curves":
        found["curves"]["loss"][0] = value
    elif place == "points":
        found["points"]["predicted"][0] = [value] * 10
    elif place == "correlation":
        found["correlation"][0][0] = value
    else:
        found[place] = value if place == "seconds" else [value] * 10
    path.write_text(json.dumps(found))
    called = call("benchmark", "report", folder / "results", "--out", folder / "site")
    assert called.code == 0 and (folder / "site" / "index.html").exists()
    return "left out, and named" if "Left out" in called.err else "drawn"
