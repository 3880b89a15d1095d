import pytest

from tests.faults.world import build


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return build(tmp_path_factory.mktemp("world"))
