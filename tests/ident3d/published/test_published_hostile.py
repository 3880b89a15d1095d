"""Published data as an attacker or a bad disk would hand it over: one sentence each, no traces."""

import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from ident3d.dataset import load
from ident3d.errors import DataError
from ident3d.published import import_published
from ident3d.published.archive import walk
from tests.support.helpers import painted, painted_row
from tests.support.published_sets import (
    causal,
    latents,
    multimodal_table,
    npy,
    png,
    table_csv,
    tar_bytes,
    three_d_ident,
    write_folder,
    write_tar,
)

TRAIN = "3dident/train/"


def refuses(source, out, match):
    """Expect one sentence, and neither a manifest nor a shard under its final name."""
    with pytest.raises((DataError, ValueError), match=match) as caught:
        import_published(source, out)
    assert "\n" not in str(caught.value)
    assert not list(out.rglob("dataset.json"))
    assert not list(out.rglob("*.h5"))


def add_member(data: bytes, name: str, **fields) -> bytes:
    """Put one more member before the others of a tar."""
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data


@pytest.mark.parametrize(
    ("name", "fields", "match"),
    [
        ("/etc/passwd", {}, "leave its folder"),
        ("../outside.png", {}, "leave its folder"),
        ("3dident/../../outside.png", {}, "leave its folder"),
        ("3dident\\..\\outside.png", {}, "leave its folder"),
        ("3dident/\x1b[2Jtrain", {}, "leave its folder"),
        (TRAIN + "images/00.png", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "a link"),
        (TRAIN + "images/00.png", {"type": tarfile.LNKTYPE, "linkname": "x"}, "a link"),
        ("3dident/null", {"type": tarfile.CHRTYPE}, "a link, device"),
        ("3dident/pipe", {"type": tarfile.FIFOTYPE}, "a link, device"),
        ("3dident/holes", {"type": tarfile.GNUTYPE_SPARSE}, "a link, device"),
        ("3dident/huge", {"size": 1 << 40}, "bytes are refused"),
        ("3dident/huge", {"size": 1 << 80}, "bytes are refused"),
        ("3dident/header", {"type": tarfile.XHDTYPE, "size": 1 << 30}, "header of"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_unsafe_members_are_refused(tmp_path, name, fields, match, packed):
    data = add_member(tar_bytes(three_d_ident()), name, **fields)
    source = tmp_path / "set.tar"
    source.write_bytes(gzip.compress(data) if packed else data)
    refuses(source, tmp_path / "out", match)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set.tar"]


def test_every_truncation_is_refused(tmp_path):
    data = tar_bytes(three_d_ident(rows=3))
    packed = gzip.compress(data)
    source = tmp_path / "set.tar"
    for whole in (data.rstrip(b"\0"), packed):
        for cut in range(1, len(whole), max(1, len(whole) // 40)):
            source.write_bytes(whole[:cut])
            refuses(
                source, tmp_path / "out", "truncated|damaged|lacks|no published|not a tar|no raw"
            )


def test_flipped_bytes_never_import_wrong_pixels(tmp_path):
    files = three_d_ident(rows=2)
    data = bytearray(tar_bytes(files))
    rng = np.random.default_rng(0)
    for trial in range(60):
        position, bit = int(rng.integers(len(data))), 1 << int(rng.integers(8))
        data[position] ^= bit
        source, out = tmp_path / "set.tar", tmp_path / f"out{trial}"
        source.write_bytes(data)
        data[position] ^= bit
        try:
            import_published(source, out, split="train")
        except (DataError, ValueError):
            assert not (out / "dataset.json").exists()
        else:  # the flip hit padding, a date, or a latent
            assert painted_row(load(out).images[:]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "options", [{"format": tarfile.PAX_FORMAT}, {"format": tarfile.GNU_FORMAT}]
)
def test_long_and_foreign_names_survive_both_tar_dialects(tmp_path, options):
    files = {f"{'long' * 60}/é/{n}.txt": str(n).encode() * n * 300 for n in range(5)}
    source = write_tar(tmp_path / "a.tar", files, **options)
    assert {member.name: member.read() for member in walk(source)} == files
    assert [member.size for member in walk(source)] == [len(data) for data in files.values()]


def test_a_pax_path_cannot_leave_the_folder(tmp_path):
    info = tarfile.TarInfo("innocent.png")
    info.pax_headers = {"path": "../" * 40 + "outside.png"}
    source = tmp_path / "set.tar"
    source.write_bytes(info.tobuf(tarfile.PAX_FORMAT) + tar_bytes(three_d_ident()))
    refuses(source, tmp_path / "out", "leave its folder")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(600), b"x" * 5000, bytes(2048)])
def test_other_files_are_not_taken_for_archives(tmp_path, content):
    source = tmp_path / "set.tar"
    source.write_bytes(content)
    refuses(source, tmp_path / "out", "not a tar|no published data set")


def changed(changes: dict[str, bytes | None]) -> dict[str, bytes]:
    files = three_d_ident() | {TRAIN + name: data for name, data in changes.items()}
    return {name: data for name, data in files.items() if data is not None}


def grey(mode: str) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (8, 8)).save(stream, "PNG")
    return stream.getvalue()


RAW, SCENE = "raw_latents.npy", "latents.npy"
OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([[{"a": 1}] * 10], dtype=object), allow_pickle=True)
OUTSIDE = latents(12)
OUTSIDE[3, 4] = 1.5
NAN = latents(12)
NAN[7, 0] = np.nan


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"images/05.png": None}, r"lacks 1 of 12 images, the first is 05\.png"),
        ({"images/5.png": png(painted(5))}, r"holds image 05\.png more than once"),
        ({"images/12.png": png(painted(5))}, "1 images more than the 12 rows"),
        ({"images_3/12.png": png(painted(5))}, "images_3 has images and no latents"),
        ({"images/05.png": png(painted(5))[:-30]}, r"05\.png is damaged"),
        ({"images/05.png": b"GIF89a"}, r"05\.png is not a PNG"),
        ({"images/00.png": b""}, r"00\.png is not a PNG"),
        ({"images/05.png": png(painted(5, size=9))}, r"05\.png is 9 x 9 pixels, the first"),
        ({"images/05.png": grey("L")}, r"05\.png must be an RGB image, got mode L"),
        ({"images/05.png": grey("P")}, r"05\.png must be an RGB image, got mode P"),
        ({"images/05.png": grey("RGBA")}, r"05\.png is partly transparent"),
        ({RAW: None}, "no raw_latents.npy"),
        ({RAW: npy(latents(12))[:-4]}, "raw_latents.npy is damaged"),
        ({RAW: npy(np.zeros((12, 11), np.float32))}, "periodic variant"),
        ({RAW: npy(np.zeros((12, 9), np.float32))}, r"shape \(n, 10\), got \(12, 9\)"),
        ({RAW: npy(np.zeros(12, np.float32))}, r"shape \(n, 10\), got float32 \(12,\)"),
        ({RAW: npy(np.zeros((0, 10), np.float32))}, r"got float32 \(0, 10\)"),
        ({RAW: npy(np.zeros((12, 10), complex))}, "got complex128"),
        ({RAW: OBJECTS.getvalue()}, "must hold real numbers, got object"),
        ({RAW: b"\x80\x04."}, "not an array of numbers"),
        ({RAW: npy(OUTSIDE)}, r"row 3 has beta = 1\.5"),
        ({RAW: npy(NAN)}, "row 7 holds NaN"),
        ({SCENE: npy(latents(12))}, "disagrees with raw_latents.npy: row 0 has x"),
        ({SCENE: npy(latents(11))}, r"has shape \(11, 10\)"),
    ],
)
def test_bad_content_is_one_sentence(tmp_path, changes, match):
    files = changed(changes)
    refuses(write_folder(tmp_path / "raw", files), tmp_path / "out", match)
    refuses(write_tar(tmp_path / "set.tar", files, order_seed=0), tmp_path / "out", match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.pop("object_ypos"), "one column `object_ypos`"),
        (lambda t: t.update(object_shape=np.full(13, 8)), "class 8"),
        (lambda t: t.update(object_shape=np.full(13, 0.5)), "class number"),
        (lambda t: t.update(object_color=np.full(13, 1.2)), "object_hue = 1.4"),
        (lambda t: t.update(spotlight_pos=np.array(["low"] * 13)), "not all numbers"),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path, change, match):
    table = multimodal_table(13)
    change(table)
    files = {f"m3di/val/images/{n:02d}.png": png(painted(n)) for n in range(13)}
    files["m3di/val/latents_image.csv"] = table_csv(table)
    refuses(write_folder(tmp_path / "raw", files), tmp_path / "out", match)


def test_a_file_twice_in_an_archive_is_refused(tmp_path):
    once = tar_bytes({TRAIN + RAW: npy(latents(12))}).rstrip(b"\0")
    source = tmp_path / "set.tar"
    source.write_bytes(once + bytes(-len(once) % 512) + tar_bytes(three_d_ident()))
    refuses(source, tmp_path / "out", "raw_latents.npy is there twice")


def test_a_decompression_bomb_costs_no_memory(tmp_path):
    image = bytearray(png(painted(0)))
    image[16:24] = (60000).to_bytes(4, "big") * 2
    files = changed({"images/00.png": bytes(image)})
    refuses(write_folder(tmp_path / "raw", files), tmp_path / "out", "60000 x 60000 pixels")


def test_opaque_alpha_is_dropped(tmp_path):
    files = {
        name: png(np.dstack([painted(int(name[-6:-4])), np.full((8, 8), 255, np.uint8)]))
        if name.endswith(".png")
        else data
        for name, data in three_d_ident().items()
    }
    import_published(write_folder(tmp_path / "raw", files), tmp_path / "out")
    assert painted_row(load(tmp_path / "out").images[:]).tolist() == list(range(12))


def test_stray_files_are_passed_over(tmp_path):
    files = three_d_ident() | {
        TRAIN + "images/._00.png": b"\x00\x05\x16\x07",
        TRAIN + "images/Thumbs.db": b"x",
        "3dident/README.txt": b"hello",
        "._3dident": b"x",
    }
    import_published(write_tar(tmp_path / "set.tar", files), tmp_path / "out")
    assert len(load(tmp_path / "out")) == 12


def test_unequal_classes_are_fine(tmp_path):
    files = causal(rows=5) | {
        "trainset/raw_latents_2.npy": npy(latents(3)),
        "trainset/latents_2.npy": None,
        "trainset/images_2/3.png": None,
        "trainset/images_2/4.png": None,
    }
    files = {name: data for name, data in files.items() if data is not None}
    import_published(write_folder(tmp_path / "raw", files), tmp_path / "out")
    assert np.bincount(load(tmp_path / "out").classes).tolist() == [5, 5, 3, 5, 5, 5, 5]
