import pytest
from ident3d.render.blender import Gpu
from ident3d.render.devices import assign_slots, choose_cards, find_slots, name_device

from ident3d.errors import DataError

CUDA = [Gpu("CUDA", "CUDA_0", "Card A"), Gpu("CUDA", "CUDA_1", "Card B")]
OPTIX = [Gpu("OPTIX", "OPTIX_0", "Card A"), Gpu("OPTIX", "OPTIX_1", "Card B")]


def works(card):
    return None


def test_auto_takes_the_best_that_works():
    assert choose_cards("auto", CUDA + OPTIX, works) == OPTIX
    broken = {"OPTIX": "driver too old"}
    assert choose_cards("auto", CUDA + OPTIX, lambda card: broken.get(card.kind)) == CUDA
    assert choose_cards("auto", CUDA, lambda card: "no kernel") == []
    assert choose_cards("auto", [], works) == []


def test_one_broken_card_of_two_is_left_out():
    assert (
        choose_cards("auto", CUDA, lambda c: "dead" if c.identity == "CUDA_0" else None) == CUDA[1:]
    )


def test_a_device_that_is_not_there_lists_what_is():
    with pytest.raises(ValueError, match="finds: cpu, cuda, optix"):
        choose_cards("hip", CUDA + OPTIX, works)
    with pytest.raises(ValueError, match="Blender finds: cpu"):
        choose_cards("cuda", [], works)


def test_a_device_that_does_not_render_says_why():
    with pytest.raises(DataError, match="Card A is here but does not render: driver too old"):
        choose_cards("cuda", CUDA, lambda card: "driver too old")


def test_every_card_gets_a_worker():
    assert [slot.gpu for slot in assign_slots(CUDA, None)] == CUDA
    assert [slot.gpu for slot in assign_slots(CUDA, 4)] == CUDA + CUDA
    assert name_device(CUDA) == "cuda (Card A, Card B)"


def test_cpu_workers_share_the_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert [slot.threads for slot in assign_slots([], None)] == [1] * 8
    assert [slot.threads for slot in assign_slots([], 2)] == [4, 4]
    assert [slot.threads for slot in assign_slots([], 16)] == [1] * 16


def test_wrong_names_and_counts():
    with pytest.raises(ValueError, match="Did you mean 'cuda'"):
        find_slots("cude", None)
    with pytest.raises(ValueError, match="`workers` must be between 1 and 1024; got 0"):
        find_slots("cpu", 0)


@pytest.mark.slow
def test_a_machine_without_cards():
    try:
        name, _ = find_slots("cuda", None)
    except ValueError as error:
        assert "Blender finds" in str(error)
        assert find_slots("auto", 1)[0] == "cpu"
    else:
        assert name.startswith("cuda")
