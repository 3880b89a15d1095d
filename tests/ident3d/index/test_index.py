import json
import os
import pickle
from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.commands.index_command import index as index_command
from ident3d.errors import DataError
from ident3d.factors import FACTORS
from ident3d.index import Index, open_index, tuning
from ident3d.index.faiss_ivf import NearestRows, build, from_bytes
from ident3d.index.tuning import Queries, draws_near, nearest_other, share_found
from ident3d.outside import read_sealed, write_sealed
from ident3d.rows import row_latents

ROWS = 30_000


def make_data(path, rows=ROWS, classes=None, seed=0):
    return SimpleNamespace(
        latents=row_latents(seed, "train", range(rows)),
        factors=FACTORS,
        fingerprint=f"{seed}-{rows}",
        classes=classes,
        path=path,
        pairs=None,
    )


@pytest.fixture(scope="module")
def big():
    data = make_data(None)
    return data, Index.build(data.latents)


def brute_force(latents, points, k, exclude):
    squares = np.square(points[:, None].astype(np.float64) - latents[None]).sum(-1)
    squares[np.arange(len(points)), exclude] = np.inf
    return squares.argsort(1)[:, :k]


def near(latents, n, scale=0.2, seed=1):
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(latents), size=n)
    points = latents[rows] + scale * rng.standard_normal((n, latents.shape[1]))
    return np.clip(points, -1, 1).astype(np.float32), rows


def test_nearest_other_skips_the_anchor():
    found = nearest_other(np.array([[3, 5], [4, 6], [7, 8]]), np.array([3, 6, -1]))
    assert found.tolist() == [5, 4, 7]


def test_index_finds_what_brute_force_finds(big):
    data, index = big
    points, rows = near(data.latents, 300)
    truth = brute_force(data.latents, points, 1, rows)
    distances, found = index.search(points, 1, rows)
    assert index.summary()["kind"] == "ivf-hnsw"
    assert (found == truth).mean() >= 0.99
    expected = np.linalg.norm(points - data.latents[found[:, 0]], axis=1)
    np.testing.assert_allclose(distances[:, 0], expected, rtol=1e-5)
    assert (found[:, 0] != rows).all()


def test_more_neighbours_come_sorted_and_nearly_complete(big):
    data, index = big
    points, rows = near(data.latents, 200)
    distances, found = index.search(points, 16, rows)
    truth = brute_force(data.latents, points, 16, rows)
    shared = np.mean([len(set(a) & set(b)) / 16 for a, b in zip(found, truth, strict=True)])
    assert shared > 0.985
    assert (np.diff(distances, axis=1) >= 0).all()


def test_certificate_equals_brute_force_on_the_same_queries(big):
    data, index = big
    part = index._parts[0]
    queries = draws_near(data.latents, 1000, np.random.default_rng(5))
    certificate = tuning.certify(part, data.latents, queries, 0.999)
    flat = faiss.IndexFlatL2(10)
    flat.add(data.latents)
    truth = nearest_other(flat.search(queries.points, 2)[1], queries.exclude)
    found = part.search(queries.points, 1, queries.exclude)[1][:, 0]
    assert certificate.recall == share_found(data.latents, queries, found, truth)
    assert certificate.recall == pytest.approx((found == truth).mean(), abs=1e-9)


def test_certificate_sees_a_bad_setting(big):
    data, index = big
    part = pickle.loads(pickle.dumps(index._parts[0]))
    part.set(tuning.Settings(probes=1, ef_search=1, candidates=2))
    queries = draws_near(data.latents, 500, np.random.default_rng(5))
    assert tuning.certify(part, data.latents, queries, 0.999).recall < 0.9


def test_certificate_reaches_its_target(big):
    assert big[1].certificate.recall >= big[1].certificate.target == 0.999


def test_equal_distances_count_as_found():
    points = np.zeros((4, 2), np.float32)
    queries = Queries(np.ones((1, 2), np.float32), np.array([-1]))
    assert share_found(points, queries, np.array([3]), np.array([0])) == 1


def test_equal_data_gives_an_equal_index(big):
    data, index = big
    again = Index.build(data.latents)
    assert again._parts[0].settings == index._parts[0].settings
    points, rows = near(data.latents, 500)
    np.testing.assert_array_equal(
        again.search(points, 4, rows)[1], index.search(points, 4, rows)[1]
    )


@pytest.mark.parametrize("dim", [1, 3, 5, 20])
def test_other_dimensions_reach_the_target(dim):
    latents = row_latents(0, "train", range(12_000), dim)
    index = Index.build(latents)
    assert index.certificate.recall >= 0.999
    assert index.summary()["kind"] == "ivf-hnsw"


def test_identical_rows_do_no_harm():
    latents = np.repeat(row_latents(0, "train", range(6)), 2_000, axis=0)
    index = Index.build(latents)
    distances, rows = index.search(latents[[0, 5_000]], 3, np.array([0, 5_000]))
    assert (distances == 0).all()
    assert (rows[0] < 2_000).all()
    assert (rows[0] != 0).all()


def test_small_sets_are_exact_and_say_so():
    data = make_data(None, rows=500)
    index = Index.build(data.latents)
    points, rows = near(data.latents, 100)
    np.testing.assert_array_equal(
        index.search(points, 5, rows)[1], brute_force(data.latents, points, 5, rows)
    )
    assert index.summary()["kind"] == "exact"
    assert index.certificate.recall == 1


def test_weights_measure_distances():
    data = make_data(None, rows=800)
    weights = np.array([4.0, 0, 0, 1, 0, 0, 0, 0, 0, 0.5])
    points, rows = near(data.latents, 60)
    found = Index.build(data.latents, weights).search(points, 1, rows)[1]
    np.testing.assert_array_equal(
        found, brute_force(data.latents * weights, points * weights, 1, rows)
    )


def test_constant_factors_are_left_out(tmp_path):
    data = make_data(tmp_path, rows=300)
    data.latents[:, 3:] = 0.5
    index = Index.build(data.latents)
    assert index.weights.tolist() == [1.0] * 3 + [0.0] * 7
    named = Index.build(data.latents, [1.0] * 3 + [0.0] * 7).save(tmp_path, data.fingerprint)
    assert named.name == "index.json"
    Index.load(data)


def test_classes_keep_searches_apart():
    classes = np.random.default_rng(0).integers(3, size=900)
    data = make_data(None, 900, classes)
    index = Index.build(data.latents, classes=classes)
    points, rows = near(data.latents, 200)
    found = index.search(points, 3, rows)[1]
    assert (classes[found] == classes[rows][:, None]).all()
    for label in range(3):
        members = np.flatnonzero(classes == label)
        chosen = classes[rows] == label
        truth = brute_force(
            data.latents[members], points[chosen], 3, np.searchsorted(members, rows[chosen])
        )
        np.testing.assert_array_equal(found[chosen], members[truth])


def test_too_few_rows_in_the_lists_are_made_up_for():
    data = make_data(None, rows=12_000)
    part = build(data.latents, coded=False)
    part.set(tuning.Settings(1, 2, 8))
    points, rows = near(data.latents, 5)
    found = part.search(points, 400, rows)[1]
    np.testing.assert_array_equal(found, brute_force(data.latents, points, 400, rows))


@pytest.mark.parametrize("k", [0, 500, 501])
def test_k_beyond_the_data_is_refused(k):
    index = Index.build(make_data(None, rows=500).latents)
    with pytest.raises(ValueError, match="`k` must be between 1 and 499, the rows there are"):
        index.search(np.zeros((1, 10)), k, np.array([0]))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"recall": 0.1}, "`recall`"),
        ({"weights": [1.0]}, "`weights`"),
        ({"weights": [0.0] * 10}, "not all 0"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        Index.build(make_data(None, rows=50).latents, **arguments)


def test_points_of_another_dimension(big):
    with pytest.raises(ValueError, match=r"shape \(n, 10\)"):
        big[1].search(np.zeros((3, 4)))


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="at least 2 rows"):
        Index.build(np.zeros((1, 10), np.float32))


def test_saved_and_loaded_answers_alike(tmp_path, big):
    data = make_data(tmp_path)
    big[1].save(tmp_path, data.fingerprint)
    loaded = Index.load(data)
    points, rows = near(data.latents, 400)
    np.testing.assert_array_equal(
        loaded.search(points, 3, rows)[1], big[1].search(points, 3, rows)[1]
    )
    assert loaded.certificate == big[1].certificate
    assert sorted(os.listdir(tmp_path)) == ["index.faiss", "index.json"]


def test_open_index_loads_and_rebuilds(tmp_path, monkeypatch):
    monkeypatch.setattr("ident3d.index.parts.EXACT_BELOW", 100)
    classes = np.arange(3_000) % 2
    data = make_data(tmp_path, 3_000, classes)
    open_index(data)
    written = os.stat(tmp_path / "index.json").st_mtime_ns
    open_index(data)
    assert os.stat(tmp_path / "index.json").st_mtime_ns == written
    open_index(make_data(tmp_path, 3_000, classes, seed=1))
    assert json.loads((tmp_path / "index.json").read_text())["fingerprint"] == "1-3000"
    with pytest.raises(DataError, match="index of other data"):
        Index.load(data)


def corrupt(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda folder: corrupt(folder / "index.faiss"), "changed or damaged"),
        (lambda folder: os.truncate(folder / "index.faiss", 1000), "1,000 bytes"),
        (lambda folder: (folder / "index.faiss").unlink(), "is missing"),
        (lambda folder: (folder / "index.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "index.json").write_text("[]"), "is damaged"),
        (lambda folder: edit(folder, version=99), "format or version"),
        (lambda folder: edit(folder, parts=[]), "other classes"),
    ],
)
def test_damage_is_found_before_faiss_reads_it(tmp_path, big, monkeypatch, damage, match):
    data = make_data(tmp_path)
    big[1].save(tmp_path, data.fingerprint)
    damage(tmp_path)
    monkeypatch.setattr(faiss, "deserialize_index", lambda _: pytest.fail("FAISS read it"))
    with pytest.raises(DataError, match=match):
        Index.load(data)


def edit(folder, **changes):
    record = read_sealed(folder / "index.json", "seal")
    write_sealed(folder / "index.json", record | changes, "seal")


def test_a_foreign_faiss_file_with_a_right_digest_is_refused(big):
    data, _ = big
    other = faiss.serialize_index(faiss.IndexFlatL2(10)).tobytes()
    with pytest.raises(DataError, match=r"IVF-HNSW|cannot read"):
        from_bytes(other, data.latents, tuning.Settings(1, 1, 1))
    with pytest.raises(DataError, match="cannot read"):
        from_bytes(b"nonsense" * 20, data.latents, tuning.Settings(1, 1, 1))


def test_settings_that_exhaust_the_machine_are_refused(tmp_path, big):
    data = make_data(tmp_path)
    big[1].save(tmp_path, data.fingerprint)
    part = json.loads((tmp_path / "index.json").read_text())["parts"][0]
    for settings in ([1, 1, 10**9], [10**9, 1, 1], [0, 1, 1], None):
        edit(tmp_path, parts=[part | {"settings": settings}])
        with pytest.raises(DataError, match="make no sense"):
            Index.load(data)


def test_exact_search_leaves_no_files(tmp_path):
    open_index(make_data(tmp_path, rows=100))
    assert os.listdir(tmp_path) == []


def test_an_index_that_may_not_be_read_is_built_again(tmp_path, big, monkeypatch):
    data = make_data(tmp_path, rows=100)

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "index.json")

    monkeypatch.setattr(Index, "load", refuse)
    assert len(open_index(data).search(data.latents[:2], 1)[1]) == 2


def test_a_class_of_one_row_is_refused():
    with pytest.raises(ValueError, match="2 rows each to look up; 7 has one"):
        Index.build(make_data(None, 50).latents, classes=np.array([0] * 49 + [7]))


def test_nothing_half_written_is_left(tmp_path, big, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        big[1].save(tmp_path, "x")
    assert os.listdir(tmp_path) == []


def test_forked_workers_leave_the_card_alone(big, monkeypatch):
    data, index = big
    (part,) = index._parts.values()
    assert not part.exact
    monkeypatch.setattr(part, "_on_gpu", object())  # which cannot search, as a card cannot there
    monkeypatch.setattr(part, "_gpu_process", os.getpid() + 1)
    found = part.search(data.latents[:5], 1, np.full(5, -1))[1]
    assert found[:, 0].tolist() == [0, 1, 2, 3, 4]
    part._gpu_process = os.getpid()
    with pytest.raises(AttributeError):
        part.search(data.latents[:5], 1, np.full(5, -1))
    index.to("cpu")
    assert part.search(data.latents[:5], 1, np.full(5, -1))[1].tolist() == found.tolist()


def test_cuda_without_a_gpu_says_so(big):
    with pytest.raises(ValueError, match=r"faiss-gpu|sees none"):
        big[1].to("cuda")
    with pytest.raises(ValueError, match="`device`"):
        big[1].to("tpu")


def test_search_survives_a_fork(big):
    data, index = big
    points, rows = near(data.latents, 2_000)
    expected = index.search(points, 1, rows)[1]  # OpenMP's threads are running now
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = np.array_equal(index.search(points, 1, rows)[1], expected)
        NearestRows(data.latents).search(points, 1, rows)
        os.write(write, b"y" if same else b"n")
        os._exit(0)
    assert os.read(read, 1) == b"y"
    os.waitpid(child, 0)


def test_command_prints_a_certificate_and_rebuilds(tmp_path, monkeypatch):
    data = make_data(tmp_path, rows=600)
    monkeypatch.setattr("ident3d.commands.index_command.load", lambda _: data)
    result = CliRunner().invoke(index_command, [str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "exact search" in result.output
    assert "1.0000" in result.output
    record = json.loads(CliRunner().invoke(index_command, [str(tmp_path), "--json"]).output)
    assert record["certificate"]["recall"] == 1
    subset = CliRunner().invoke(index_command, [str(tmp_path), "--factors", "position"])
    assert "x, y, z" in subset.output
    assert len(list(tmp_path.glob("index-*.faiss"))) == 1
