"""Terrain: the profile of each kind of tile, the surface MuJoCo makes of it, the height scan and the levels."""

from collections import Counter

import mujoco
import numpy as np
import pytest

from slewrl.locomotion.terrain import (
    KINDS,
    SCAN_MIRROR,
    SCAN_X,
    SCAN_Y,
    SHARES,
    Terrain,
    boxes,
    column_kinds,
    noise,
    rough,
    slope,
    stairs,
)

SIDE = np.linspace(-4, 4, 81)


def at(ground, x, y):
    """Height of an (81, 81) tile at metres from its centre; rows are y."""
    return ground[round((y + 4) / 0.1), round((x + 4) / 0.1)]


def generator():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def small():
    return rough(seed=3, rows=2, cols=10, border=1.0)


def of_heights(heights, cell=0.1):
    """A terrain of given heights; its tiles do not matter."""
    return Terrain(np.asarray(heights, dtype=np.float32), np.zeros((10, 1, 3)), cell)


# ---------------------------------------------------------------------------------------------------- kinds of ground


@pytest.mark.parametrize(("difficulty", "step"), [(0.0, 0.05), (0.5, 0.14), (1.0, 0.23)])
def test_stairs_climb_seven_steps_of_30_cm(difficulty, step):
    ground = stairs(difficulty, SIDE)
    risers = {4.0: 0, 3.1: 0, 3.0: 1, 2.8: 1, 2.7: 2, 2.5: 2, 2.4: 3, 2.1: 4, 1.8: 5, 1.5: 6, 1.3: 6, 1.2: 7, 0.0: 7}
    for x, n in risers.items():
        for side in (1, -1):
            assert at(ground, side * x, 0) == pytest.approx(n * step)
            assert at(ground, x, side * x) == at(ground, 0.3, side * x) == pytest.approx(n * step)
    assert at(ground, 2.7, -2.9) == pytest.approx(step)


def test_a_slope_is_a_product_cut_off_at_the_corner_of_its_platform():
    ground = slope(1.0, SIDE)
    assert at(ground, 0, 0) == at(ground, 1, -1) == pytest.approx(1.5 * (2.75 / 3.75) ** 2)
    assert at(ground, 3, 0) == at(ground, 0, -3) == pytest.approx(1.5 * 0.2)
    assert at(ground, 3, 0) - at(ground, 3.1, 0) == pytest.approx(0.4 * 0.1)
    assert at(ground, 3, 3) == pytest.approx(1.5 * 0.2**2)
    assert at(ground, 3.8, 0) == at(ground, 3.9, 3.9) == at(ground, 4, 4) == 0
    assert not slope(0.0, SIDE).any() and slope(0.5, SIDE) == pytest.approx(ground / 2)


@pytest.mark.parametrize(("difficulty", "g"), [(0.0, 0.05), (1.0, 0.2)])
def test_boxes_stand_around_a_platform(difficulty, g):
    ground = boxes(difficulty, SIDE, generator())
    assert at(ground, 1.0, -1.0) == at(ground, 0, 0) == pytest.approx(g)
    assert at(ground, 3.9, 0) == at(ground, -4, 2) == 0  # the border is (8 - 17 * .45) / 2 = .175 m
    assert at(ground, -3.8, -3.8) == at(ground, -3.4, -3.4) != at(ground, -3.3, -3.4)  # the first ends at -3.375
    # 17 x 17 boxes, of which 3 x 3 lie under the platform; the platform; the border.
    assert np.unique(ground).size == 17 * 17 - 9 + 2
    assert 0.95 * g < np.abs(ground).max() <= g and abs(ground.mean()) < 0.2 * g


def test_noise_has_five_heights_on_a_border():
    ground = noise(SIDE, generator())
    values, counts = np.unique(ground[3:-3, 3:-3].round(9), return_counts=True)
    assert values == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.10])
    assert (abs(counts / 75**2 - 0.2) < 0.03).all()
    ground[3:-3, 3:-3] = 0
    assert not ground.round(9).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", [5.0, 5.4, 8.0])
def test_every_tile_ends_level(kind, tile):
    side = np.linspace(-tile / 2, tile / 2, round(tile / 0.1) + 1)
    ground = KINDS[kind](0.9, side, generator())
    assert ground.any()
    assert not any(edge.any() for edge in (ground[0], ground[-1], ground[:, 0], ground[:, -1]))


# ------------------------------------------------------------------------------------------------------------ the grid


def test_columns_are_shared_out():
    expected = {"stairs": 4, "inverted_stairs": 4, "boxes": 4, "noise": 4, "slope": 2, "inverted_slope": 2}
    assert Counter(column_kinds(20)) == expected and list(dict.fromkeys(column_kinds(20))) == list(SHARES)
    assert Counter(column_kinds(10)) == {kind: n // 2 for kind, n in expected.items()}
    assert column_kinds(1) == ("boxes",)


def test_tiles_lie_where_their_origins_say(small):
    assert (small.cols, small.rows) == (2 * 80 + 1 + 20, 10 * 80 + 1 + 20)
    assert (small.radius_x, small.radius_y) == pytest.approx((9.0, 41.0))
    assert small.origins[:, 0, :2] == pytest.approx(np.array([[-4, -36], [4, -36]]))
    assert small.origins[0, :, 1] == pytest.approx(np.arange(-36, 37, 8))
    difficulties = np.array([[(i + np.random.default_rng([3, i, k]).uniform()) / 2 for k in range(10)] for i in (0, 1)])
    step, g = 0.05 + 0.18 * difficulties, 0.05 + 0.15 * difficulties
    tops = {"stairs": 7 * step, "inverted_stairs": -7 * step, "boxes": g, "noise": np.full((2, 10), 0.1)}
    tops["slope"] = 0.4 * difficulties * 3.75 * (2.75 / 3.75) ** 2
    tops["inverted_slope"] = -tops["slope"]
    kinds = column_kinds(10)
    for (level, column), difficulty in np.ndenumerate(difficulties):
        x, y, z = small.origins[level, column]
        assert z == pytest.approx(tops[kinds[column]][level, column], abs=1e-6), difficulty
        assert kinds[column] == "noise" or small.height(x, y) == pytest.approx(z, abs=1e-6)
    assert not small.heights[:10].any() and not small.heights[:, -10:].any()


def test_the_paper_sized_grid():
    terrain = rough()
    assert terrain.heights.shape == (2001, 1201) and terrain.heights.dtype == np.float32
    assert terrain.origins.shape == (10, 20, 3) and (terrain.radius_x, terrain.radius_y) == pytest.approx((60, 100))
    assert -1.61 <= terrain.lowest < -1.4 and 2.8 < terrain.height_range <= 3.22  # 7 steps of .23 m both ways
    assert terrain.hfield_data.min() == 0 and terrain.hfield_data.max() == 1


def test_a_seed_is_a_terrain(small):
    again, other = (rough(seed=seed, rows=2, cols=10, border=1.0) for seed in (3, 4))
    assert (again.heights == small.heights).all() and (again.origins == small.origins).all()
    assert np.unique([other.origins[..., 2], small.origins[..., 2]]).size > 30  # tiles differ
    with pytest.raises(ValueError, match="read-only"):
        small.heights[0, 0] = 1
    with pytest.raises(AttributeError):
        small.cell = 1


# ------------------------------------------------------------------------------------------------- MuJoCo's surface


def simulated(terrain, ball=0.001):
    """A model of the terrain as its docstring says, and a free ball of 1 mm."""
    t = terrain
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <asset><hfield name="ground" nrow="{t.rows}" ncol="{t.cols}"
        size="{t.radius_x} {t.radius_y} {t.height_range} {t.base}"/></asset>
      <worldbody><geom name="ground" type="hfield" hfield="ground" pos="0 0 {t.lowest}"/>
        <body pos="0 0 9"><freejoint/><geom type="sphere" size="{ball}"/></body></worldbody></mujoco>""")
    model.hfield_data[:] = t.hfield_data
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def cast(model, data, x, y):
    down, hit = np.array([0.0, 0, -1]), np.zeros(1, dtype=np.int32)
    return 5 - mujoco.mj_ray(model, data, np.array([x, y, 5.0]), down, None, 1, 1, hit)


def test_rays_meet_the_same_surface(small):
    model, data = simulated(small)
    radii = np.array([small.radius_x, small.radius_y])
    points = np.random.default_rng(1).uniform(-radii, radii, (2000, 2))
    seen = [cast(model, data, *point) for point in points]
    found = small.height(*points.T)
    assert np.abs(found - seen).max() < 1e-4
    assert np.ptp(found) > 1  # not all on level ground


def test_contacts_meet_the_same_surface(small):
    """A ball of 1 mm touches at .5 mm above the surface, and not at 2 mm: noise is nowhere steeper than .8 sqrt(2)."""
    model, data = simulated(small)
    tile = small.origins[1, column_kinds(10).index("noise"), :2]
    for x, y in tile + np.random.default_rng(2).uniform(-3.5, 3.5, (100, 2)):
        for above, touches in ((0.0005, True), (0.002, False)):
            data.qpos[:3] = x, y, small.height(x, y) + above
            mujoco.mj_fwdPosition(model, data)
            assert (data.ncon > 0) == touches


def test_a_twisted_cell_is_cut_from_its_first_corner_to_its_last():
    terrain = of_heights([[0, 1], [1, 0]], cell=2.0)
    assert terrain.height(0, 0) == 0 and terrain.height(0.5, -0.5) == pytest.approx(0.5)
    assert cast(*simulated(terrain), 0.5, -0.5) == pytest.approx(0.5)
    assert terrain.height(-1, 1) == terrain.height(1, -1) == 1 and terrain.height(1, 1) == 0


def test_height_takes_any_shape_and_stops_at_the_edge(small):
    assert small.height(0.0, 0.0).shape == () and small.height(np.zeros((2, 3)), 0.0).shape == (2, 3)
    terrain = of_heights([[0, 1], [2, 3]])
    assert terrain.height([-9, 9, np.inf], [-9, 9, -9]) == pytest.approx([0, 3, 1])
    assert np.isnan(terrain.height([np.nan, 0], [0, np.nan])).all()


def test_level_ground_is_a_height_field_too():
    terrain = of_heights(np.full((3, 4), 0.5))
    assert (terrain.lowest, terrain.height_range) == (0.5, 1.0) and not terrain.hfield_data.any()
    assert cast(*simulated(terrain), 0.02, 0.03) == pytest.approx(0.5)


# -------------------------------------------------------------------------------------------------------- height scan


def plane(slope_x, slope_y):
    x, y = np.linspace(-10, 10, 201), np.linspace(-6, 6, 121)
    return of_heights(slope_x * x + slope_y * y[:, None])


@pytest.mark.parametrize(
    ("yaw", "forward", "left"),
    [(0, (1, 0), (0, 1)), (np.pi / 2, (0, 1), (-1, 0)), (-np.pi / 2, (0, -1), (1, 0)), (np.pi, (-1, 0), (0, -1))],
)
def test_the_scan_turns_with_the_robot(yaw, forward, left):
    scan = plane(0.3, 0.05).scan([[2.0, -1.0], [0.33, 1.77]], [yaw, yaw])
    assert scan.shape == (2, 187) and scan.dtype == np.float32
    for n, (x, y) in enumerate([(2.0, -1.0), (0.33, 1.77)]):
        for i, j in ((0, 0), (16, 0), (3, 7), (16, 10), (8, 5)):
            px = x + SCAN_X[i] * forward[0] + SCAN_Y[j] * left[0]
            py = y + SCAN_X[i] * forward[1] + SCAN_Y[j] * left[1]
            assert scan[n, 17 * j + i] == pytest.approx(0.3 * px + 0.05 * py, abs=1e-5)


def test_the_scan_is_the_height_at_its_points(small):
    rng = np.random.default_rng(3)
    position, yaw = rng.uniform(-8, 8, (20, 2)), rng.uniform(-np.pi, np.pi, 20)
    forward, left = (grid.ravel() for grid in np.meshgrid(SCAN_X, SCAN_Y))
    cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    expected = small.height(position[:, :1] + cos * forward - sin * left, position[:, 1:] + sin * forward + cos * left)
    assert small.scan(position, yaw) == pytest.approx(expected, abs=1e-4)


def test_one_lost_robot_is_alone():
    scan = plane(0.3, 0.0).scan([[0.0, 0.0], [np.nan, 0.0]], [0.0, 0.0])
    assert np.isfinite(scan[0]).all() and np.isnan(scan[1]).all()


def test_the_mirror_of_a_scan_is_the_scan_of_the_mirror():
    """On ground f(x) + g(y), where both diagonals of a cell agree, so that the mirrored field is the mirror image."""
    rng = np.random.default_rng(4)
    ground = rng.uniform(0, 0.2, 201) + rng.uniform(0, 0.2, (121, 1))
    terrain, mirrored = of_heights(ground), of_heights(ground[::-1])
    position, yaw = rng.uniform(-5, 5, (10, 2)), rng.uniform(-np.pi, np.pi, 10)
    scan = terrain.scan(position, yaw)
    assert mirrored.scan(position * [1, -1], -yaw) == pytest.approx(scan[:, SCAN_MIRROR], abs=1e-4)
    assert np.abs(scan - scan[:, SCAN_MIRROR]).max() > 0.1
    assert (SCAN_MIRROR[SCAN_MIRROR] == np.arange(187)).all()


# ------------------------------------------------------------------------------------------------------------- levels


@pytest.mark.parametrize(
    ("level", "distance", "commanded", "expected"),
    [
        (3, 4.1, 20.0, 4),  # left the tile: up, though half of 20 m was asked for
        (3, 4.0, 6.0, 3),  # 4 m is not beyond
        (3, 2.9, 6.0, 2),
        (3, 3.0, 6.0, 3),  # half is enough
        (3, 0.0, 0.0, 3),  # told to stand
        (0, 0.0, 20.0, 0),
        (8, 5.0, 6.0, 9),
        (9, 1.0, 6.0, 8),
        (5, np.nan, 6.0, 5),
    ],
)
def test_levels(level, distance, commanded, expected):
    terrain = of_heights(np.zeros((2, 2)))
    assert terrain.promote(level, distance, commanded, generator()) == expected


def test_who_solves_the_last_level_gets_any():
    terrain = of_heights(np.zeros((2, 2)))
    level, distance = np.full(2000, 9), np.full(2000, 5.0)
    first, again = (terrain.promote(level, distance, distance, generator()) for _ in range(2))
    assert (first == again).all() and (level == 9).all()
    assert first.shape == (2000,) and first.dtype == np.int64
    assert sorted(set(first.tolist())) == list(range(10))
    assert (abs(np.bincount(first) / 2000 - 0.1) < 0.03).all()
