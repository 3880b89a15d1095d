import json
import shutil

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from ident3d.benchmark.commands.entry_command import pack as pack_command
from ident3d.benchmark.commands.entry_command import verify as verify_command
from ident3d.benchmark.results import entries, load, load_all
from ident3d.benchmark.results.embeddings import read_embeddings
from ident3d.benchmark.results.entries import embeddings_name, pack, seal, submitted
from ident3d.benchmark.results.records import image_record
from ident3d.benchmark.results.verification import verify
from ident3d.benchmark.scoring import scores as scoring

from ident3d.errors import DataError
from tests.support.helpers import make_dataset

ROWS = 120


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data"), ROWS, 50, "test", size=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Record files of two seeds, as `benchmark run` and `benchmark score` leave them."""
    folder = tmp_path_factory.mktemp("results")
    paths = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        z_hat = data.latents @ rng.normal(size=(10, 12)) + rng.normal(0, 0.3, (ROWS, 12))
        z_hat = z_hat.astype(np.float32)
        result = image_record(
            data, z_hat, protocol="held-out", method="mine", experiment="table4/1", tier="open",
            seed=seed,
        )  # fmt: skip
        paths.append(result.save(folder, z_hat))
    return paths


@pytest.fixture(scope="module")
def probed(tmp_path_factory, runs):
    """An entry that states all scores, those of the slower probes too."""
    return pack(runs, tmp_path_factory.mktemp("probed") / "entry")


@pytest.fixture(scope="module")
def packed(tmp_path_factory, probed):
    """The same without the probes."""
    folder = shutil.copytree(probed, tmp_path_factory.mktemp("packed") / "entry")
    edit(folder, lambda e: [r["scores"].pop(n) for r in e["records"] for n in scoring.PROBES])
    return folder


@pytest.fixture
def entry(tmp_path, packed):
    return shutil.copytree(packed, tmp_path / "entry")


def edit(entry, change, sealed=True):
    """Change entry.json; a cheat with some care also makes its seal fit again."""
    found = json.loads((entry / "entry.json").read_text())
    change(found)
    if sealed:
        found["seal"] = seal(found)
    (entry / "entry.json").write_text(json.dumps(found))


def edit_embeddings(entry, change, seed=0):
    """Change a seed's embeddings, and make digest and seal fit again."""
    path = entry / embeddings_name(seed)
    np.save(path, change(np.load(path)))
    edit(entry, lambda e: e["embeddings"].update({str(seed): entries.file_digest(path)}))


def refused(entry, data, match):
    with pytest.raises((DataError, ValueError), match=match) as caught:
        verify(entry, data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_an_honest_entry_is_verified(probed, data):
    checked = verify(probed, data)
    assert [one["seed"] for one in checked] == [0, 1]
    stated = json.loads((probed / "entry.json").read_text())["records"]
    assert checked[1]["scores"]["r2"] == pytest.approx(stated[1]["scores"]["r2"], abs=1e-9)
    assert list(stated[0]["scores"]["r2_per_factor"]) == [f.name for f in data.factors]


def test_an_entry_is_shown_on_the_leaderboard(entry):
    assert [result.method for result in load_all(entry.parent)] == ["mine", "mine"]
    edit(entry, lambda e: e["records"][0]["scores"].update(r2=1.0), sealed=False)
    left_out = []
    assert load_all(entry.parent, left_out) == []
    assert "changed after packing" in left_out[0]


def test_an_entry_adds_nothing_to_a_method_that_is_there(tmp_path, entry, runs):
    folder = shutil.copytree(entry, tmp_path / "results" / "a-stranger")  # sorts before the records
    shutil.copy(runs[1], tmp_path / "results")
    edit(folder, lambda e: e["records"].reverse())  # its seed 1 is the one that is there
    left_out = []
    (kept,) = load_all(tmp_path / "results", left_out)
    assert kept == load(runs[1]) and "repeats the run" in left_out[0]
    (tmp_path / "results" / runs[1].name).unlink()
    other = msgspec.structs.replace(load(runs[1]), seed=7)
    other.save(tmp_path / "results")
    assert load_all(tmp_path / "results", left_out) == [other]
    assert "pack it under a method name of its own" in left_out[1]
    assert load_all(tmp_path / "results", entries=False) == [other]


def test_a_control_is_no_entry(entry, data):
    edit(entry, lambda e: [one.update(control=True) for one in e["records"]])
    with pytest.raises(DataError, match="no control; `ident3d benchmark controls` makes those"):
        verify(entry, data)


def test_all_provable_scores_are_kept_and_others_left_out(tmp_path, runs):
    found = json.loads(runs[0].read_text())
    found["scores"]["my_own_score"] = 1.0
    (tmp_path / "run.json").write_text(json.dumps(found))
    shutil.copy(runs[0].with_suffix(".npy"), tmp_path / "run.npy")
    made = pack([tmp_path / "run.json"], tmp_path / "entry")
    (kept,) = json.loads((made / "entry.json").read_text())["records"]
    assert set(kept["scores"]) == set(scoring.PROVABLE)


@pytest.mark.parametrize("name", scoring.PROVABLE)
def test_each_changed_score_is_caught(tmp_path, packed, probed, data, name):
    source = probed if name in scoring.PROBES else packed
    entry = shutil.copytree(source, tmp_path / "entry")

    def raise_score(e):
        scores = e["records"][0]["scores"]
        if isinstance(scores[name], dict):
            scores[name]["gamma"] += 0.002
        else:
            scores[name] += 0.002

    edit(entry, raise_score)
    refused(entry, data, f"seed 0, {name}")


def test_any_edit_without_a_new_seal_is_caught(entry, data):
    edit(entry, lambda e: e["records"][0].update(seconds=1.0), sealed=False)
    refused(entry, data, "seal does not agree")


@pytest.mark.parametrize(
    ("part", "change", "match"),
    [
        ("correlation", lambda r: r["correlation"][2].__setitem__(3, 1.0), "correlation"),
        ("points", lambda r: r["points"]["predicted"][5].__setitem__(0, 0.0), "points"),
        ("true points", lambda r: r["points"]["true"][5].__setitem__(0, 0.0), "points"),
        ("fewer points", lambda r: [r["points"][k].pop() for k in r["points"]], "points"),
        ("unknown score", lambda r: r["scores"].update(best=1.0), "`best` cannot be computed"),
        ("no r2", lambda r: r["scores"].update(r2=None), "must state `r2`"),
        ("no mcc", lambda r: r["scores"].pop("mcc"), "must state `mcc`"),
        ("score of wrong kind", lambda r: r["scores"].update(r2={"x": 1}), "`scores.r2` must be"),
        ("fewer factors", lambda r: r["scores"]["r2_per_factor"].pop("x"), "must name"),
        ("other factors", lambda r: r["factors"].reverse(), "in their order"),
    ],
)
def test_changed_drawings_and_shapes_are_caught(entry, data, part, change, match):
    edit(entry, lambda e: change(e["records"][0]))
    refused(entry, data, match)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("fingerprint", "0" * 64, "another data set"),
        ("split", "train", "split 'train'"),
        ("rows", ROWS - 1, f"states {ROWS - 1} rows"),
    ],
)
def test_another_data_set_is_caught(entry, data, field, value, match):
    edit(entry, lambda e: [r["data"].update({field: value}) for r in e["records"]])
    refused(entry, data, match)


def test_verifying_against_other_data_is_caught(entry, tmp_path):
    other = make_dataset(tmp_path / "other", ROWS, 50, "test", size=2, seed=1)
    refused(entry, other, "another data set")


def test_another_protocol_is_caught_by_its_scores(entry, data):
    edit(entry, lambda e: [r.update(protocol="as-released") for r in e["records"]])
    refused(entry, data, "seed 0, r2")


def test_another_protocol_is_caught_by_its_rows(entry, data, monkeypatch):
    monkeypatch.setattr("ident3d.benchmark.scoring.protocols.RELEASED_ROWS", 60)
    edit(entry, lambda e: [r.update(protocol="as-released") for r in e["records"]])
    refused(entry, data, "protocol as-released scores 60 rows")


@pytest.mark.parametrize(
    ("why", "change", "match"),
    [
        ("missing rows", lambda a: a[:-1], f"holds {ROWS - 1} rows"),
        ("more rows", lambda a: np.vstack([a, a[:1]]), f"holds {ROWS + 1} rows"),
        ("swapped rows", lambda a: a[::-1], "seed 0, r2"),
        ("one row changed", lambda a: np.vstack([a[:1] + 5, a[1:]]), "seed 0"),
        ("the truth itself", lambda a: a * 0 + np.arange(12), "seed 0"),
        ("NaN", lambda a: np.where(a == a[3, 3], np.nan, a), "row 3 holds"),
        ("infinity", lambda a: np.where(a == a[3, 3], np.inf, a), "row 3 holds"),
        ("huge values", lambda a: a.astype(np.float64) * 1e200, "row 0 holds"),
        ("one column", lambda a: a[:, 0], r"shape \(n, k\)"),
        ("whole numbers", lambda a: a.astype(np.int64), "float32 or float64"),
        ("too wide", lambda a: np.zeros((ROWS, 300), np.float32), "1 to 256 values"),
        ("no columns", lambda a: a[:, :0], r"plain .npy|shape \(n, k\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*never changes:UserWarning")
def test_changed_embeddings_are_caught(entry, data, why, change, match):
    edit_embeddings(entry, change)
    refused(entry, data, match)


def test_one_flipped_bit_of_the_embeddings_is_caught(entry, data):
    path = entry / embeddings_name(1)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    refused(entry, data, "changed after packing")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize("what", ["pickle", "objects", "archive", "cut", "header", "empty"])
def test_embeddings_that_are_no_plain_matrix_are_refused(tmp_path, what):
    import pickle

    path = tmp_path / "x.npy"
    if what == "pickle":
        path.write_bytes(pickle.dumps(Bomb()))
    elif what == "objects":
        np.save(path, np.array([[Bomb()]], dtype=object), allow_pickle=True)
    elif what == "archive":
        np.savez(tmp_path / "x.npz", a=np.zeros((3, 3)))
        (tmp_path / "x.npz").rename(path)
    elif what == "cut":
        np.save(path, np.zeros((100, 3)))
        path.write_bytes(path.read_bytes()[:-8])
    elif what == "header":
        np.save(path, np.zeros((100, 3)))
        path.write_bytes(path.read_bytes().replace(b"(100, 3), }  ", b"(10**9,3), } "))
    else:
        path.touch()
    with pytest.raises(DataError, match=r"is damaged, or not|real numbers|damaged or truncated"):
        read_embeddings(path)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "x.npy", "wb") as stream:
        stream.truncate(entries.MAX_EMBEDDINGS + 1)  # sparse: takes no disk
    with pytest.raises(DataError, match="at most"):
        submitted(tmp_path / "x.npy")


def test_missing_files_strange_files_and_links_are_refused(entry, data, tmp_path):
    (entry / "run.py").write_text("raise SystemExit")
    refused(entry, data, "found 'run.py'")
    (entry / "run.py").unlink()
    real = (entry / embeddings_name(1)).rename(tmp_path / "real.npy")
    refused(entry, data, "is missing")
    (entry / embeddings_name(1)).symlink_to(real)
    refused(entry, data, "found 'embeddings-s1.npy'")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", data, "has no entry.json; `ident3d benchmark pack` makes entries")


def test_a_link_to_an_entry_is_refused_and_stops_nothing_else(entry, data, tmp_path):
    (tmp_path / "link").symlink_to(entry)
    refused(tmp_path / "link", data, "link is a link; an entry must be the folder itself")
    left_out = []
    assert load_all(tmp_path / "link", left_out) == []  # which it does walk into, being named
    assert "link is a link" in left_out[0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda e: e.update(kind="x"), "no ident3d-entry"),
        (lambda e: e.update(version=2), "`version` must be 1"),
        (lambda e: e.update(extra=1), "unknown field `extra`"),
        (lambda e: e.update(records={}), "`records` must be a list"),
        (lambda e: e.update(records=[]), "`records` must be a list of length >= 1"),
        (lambda e: e.update(records=[1]), r"`records\[0\]` must be a table"),
        (
            lambda e: e.update(records=e["records"] * 60),
            "`records` must be a list of length <= 100",
        ),
        (lambda e: e.update(records=e["records"][:1] * 2), "each seed once"),
        (lambda e: e.update(embeddings=[]), "`embeddings` must be a table"),
        (lambda e: e.update(embeddings={"0": "../x", "1": "y"}), "`embeddings.* must be text"),
        (lambda e: e.update(embeddings={"0": "0" * 64}), "changed after packing"),
        (lambda e: e["records"][0].update(method="<script>"), "one method and setting"),
        (lambda e: e["records"][0].update(seed="../../x"), "seed` must be a whole number"),
        (
            lambda e: e["records"][0].update(method="x" * 10**6),
            "method` must be text of length <= 120",
        ),
        (
            lambda e: e["records"][0].update(method="x" * 121),
            "method` must be text of length <= 120",
        ),
        (
            lambda e: e["records"][0].update(tier="a\u202eb"),
            r"records\[0\]`: `tier` must be print",
        ),
        (lambda e: [r.update(data=None) for r in e["records"]], "synthetic run"),
    ],
)
def test_an_odd_entry_is_refused_in_one_sentence(entry, data, change, match):
    edit(entry, change)
    refused(entry, data, match)


def test_a_fitting_entry_with_a_hostile_name_stays_harmless(entry, data):
    edit(entry, lambda e: [r.update(method="../<script>alert(1)</script>") for r in e["records"]])
    assert len(verify(entry, data)) == 2


def test_pack_refuses_what_does_not_belong_together(tmp_path, runs):
    with pytest.raises(DataError, match="each seed once"):
        pack([runs[0], runs[0]], tmp_path / "a")
    found = json.loads(runs[1].read_text()) | {"tier": "full"}
    (tmp_path / "other.json").write_text(json.dumps(found))
    with pytest.raises(DataError, match=r"one method and setting .* these differ in tier: pack"):
        pack([runs[0], tmp_path / "other.json"], tmp_path / "a")
    with pytest.raises(DataError, match="is missing"):
        pack([tmp_path / "other.json"], tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="new or empty folder"):
        pack(runs, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol": "as-released"}, "protocol"),
        ({"experiment": "table4/2", "method": "other"}, "experiment, method"),
        ({"data": {"name": "x", "fingerprint": "other"}}, "data"),
        ({"settings": {"steps": 7}}, "settings"),
    ],
)
def test_pack_says_in_what_records_differ(tmp_path, runs, change, words):
    (tmp_path / "other.json").write_text(json.dumps(json.loads(runs[1].read_text()) | change))
    with pytest.raises(DataError, match=f"these differ in {words}: pack them apart"):
        pack([runs[0], tmp_path / "other.json"], tmp_path / "a")


def test_a_representation_with_too_few_dimensions_has_no_mcc(data):
    found = scoring.score(
        data.latents, data.latents[:, :4], "held-out", [f.name for f in data.factors]
    )
    assert found["mcc"] is None and found["r2_per_factor"]["x"] == pytest.approx(1)


def test_points_of_the_clean_protocol_are_rows_the_fit_has_not_seen(data):
    noise = np.random.default_rng(0).normal(size=(ROWS, 58))
    assert (
        np.abs(_residual(scoring.points(data.latents[:118], noise[:118], "held-out"))).max() > 0.5
    )
    shown = scoring.points(data.latents, data.latents, "as-released", count=7)
    assert len(shown["true"]) == 7 and np.abs(_residual(shown)).max() < 1e-3


def _residual(points):
    return np.array(points["true"]) - np.array(points["predicted"])


def test_the_commands_pack_and_verify(tmp_path, runs, entry, data):
    runner = CliRunner()
    done = runner.invoke(pack_command, [*map(str, runs), "--out", str(tmp_path / "e")])
    assert done.exit_code == 0 and "Packed 2 seeds" in done.output
    done = runner.invoke(verify_command, [str(entry), "--data", str(data.path)])
    assert done.exit_code == 0 and "agrees" in done.output
    done = runner.invoke(verify_command, [str(entry), "--data", str(data.path), "--json"])
    assert json.loads(done.output)["verified"] is True
