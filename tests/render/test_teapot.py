from collections import Counter

import numpy as np
import pytest
from ident3d.render.scene import TEAPOT_SCALE, TEAPOT_SIZE
from ident3d.render.teapot import teapot


def directed_edges(mesh):
    return Counter(
        (a, b) for face in mesh.faces for a, b in zip(face, face[1:] + face[:1], strict=True)
    )


def test_size_is_the_released_one():
    vertices = teapot().vertices
    low, high = vertices.min(0), vertices.max(0)
    assert low[2] == pytest.approx(-0.90669, abs=2e-5)
    assert high[2] == pytest.approx(1.09257, abs=2e-5)
    assert TEAPOT_SCALE * (high - low).max() == pytest.approx(TEAPOT_SIZE, abs=1e-5)
    assert pytest.approx(4.4421, abs=5e-5) == TEAPOT_SIZE
    # Spout and handle lie across x = -y after the turn: the box is symmetric in the diagonal.
    assert low[:2] == pytest.approx(-high[1::-1], abs=1e-9)


def test_vertex_count_is_the_released_one_but_for_one():
    mesh = teapot()
    assert abs(len(mesh.vertices) - 3242) <= 1
    assert len({tuple(vertex) for vertex in mesh.vertices.round(7)}) == len(mesh.vertices)


def test_no_face_is_degenerate():
    mesh = teapot()
    assert Counter(map(len, mesh.faces)) == {4: 3120, 3: 80}
    for face in mesh.faces:
        corners = mesh.vertices[list(face)]
        area = np.cross(corners[2] - corners[0], corners[-1] - corners[1])
        assert np.linalg.norm(area) > 1e-6


def test_no_cracks_and_one_orientation():
    """Edges lie between two faces that run along them in opposite ways, or on an open rim."""
    edges = directed_edges(teapot())
    assert max(edges.values()) == 1
    rims = [edge for edge in edges if edge[::-1] not in edges]
    # Rim of the body, lid, both ends of the spout and of the handle: four and two patches around.
    assert len(rims) == 160


def test_faces_look_outwards():
    mesh = teapot()
    outwards = []
    for face in mesh.faces:
        corners = mesh.vertices[list(face)]
        area = np.cross(corners[2] - corners[0], corners[-1] - corners[1])
        middle = corners.mean(0)
        if abs(middle[0] + middle[1]) > 0.6:  # away from spout and handle, only the round body
            outwards.append(area @ middle > 0)
    assert len(outwards) > 500
    assert np.mean(outwards) > 0.9  # but for the rim's inner side


def test_finer_meshes_approach_the_surface():
    size = [np.ptp(teapot(segments).vertices, axis=0).max() for segments in (5, 10, 40)]
    assert abs(size[1] * 1.5 - 4.4448) < abs(size[0] * 1.5 - 4.4448)
    assert size[2] * 1.5 == pytest.approx(4.4448, abs=5e-4)
