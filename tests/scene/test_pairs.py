"""Rules for groups of bodies: who may touch, by which law, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.runtime.errors import ContactRuleError, PairError
from implicit_stepper.scene.grouping import Law


@pytest.fixture
def bodies():
    scene = ist.Scene()
    ball = shapes.Sphere(0.1)
    moving = [scene.add_body(name=f"b{k}", shape=ball, mass=1.0, position=(k, 0, 1)) for k in range(4)]
    fixed = [
        scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0)),
        scene.add_fixed(name="post", shape=ball, position=(9, 0, 1)),
    ]
    return scene, moving, fixed


def laws(scene):
    """mu of every pair that may touch, by the names of its bodies."""
    system, _ = scene.build()
    mu = {}
    for group in system.groups:
        for number, own in zip(group.numbers, group.mu, strict=True):
            mu[system.contact_names[number]] = float(own)
    return mu


def test_all_bodies_may_touch_but_fixed_ones_joined_ones_and_those_kept_apart(bodies):
    scene, moving, fixed = bodies
    scene.add_contacts(friction=0.3, apart=[(moving[0], fixed[1])])
    scene.add_joint(moving[2], moving[3], ist.Distance(point_1=(0, 0, 0), point_2=(0, 0, 0), length=1.0))
    late = scene.add_body(name="late", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 5, 1))
    names = ["b0", "b1", "b2", "b3", "late", "floor", "post"]
    every = {(a, b) for i, a in enumerate(names) for b in names[i + 1 :]}
    assert late.name == "late"
    assert set(laws(scene)) == every - {("floor", "post"), ("b0", "post"), ("b2", "b3")}
    assert scene.pair_count() == len(laws(scene))


def test_what_moves_as_it_is_told_touches_what_is_free_alone(bodies):
    """No contact can part it from a fixed body, or from another one like it."""
    scene, moving, fixed = bodies
    plates = [
        scene.add_moving(
            name=name,
            shape=shapes.Box((1, 1, 0.1)),
            mass=1.0,
            pose=lambda t: (jnp.array([0, 0, -1 - t]), jnp.array([1.0, 0, 0, 0])),
        )
        for name in ("upper", "lower")
    ]
    scene.add_contacts(friction=0.3)
    found = laws(scene)
    assert {pair for pair in found if "upper" in pair} == {(ball.name, "upper") for ball in moving}
    assert {pair for pair in found if "lower" in pair} == {(ball.name, "lower") for ball in moving}
    with pytest.raises(ValueError, match=r"`between` = \(\['upper'\], \['floor', 'lower'\]\) lets no two bodies touch"):
        scene.add_contacts(between=([plates[0]], [fixed[0], plates[1]]))


def test_the_last_rule_holds_and_a_pair_that_is_named_keeps_its_own(bodies):
    scene, moving, fixed = bodies
    scene.add_contact(fixed[0], moving[0], friction=0.9)
    scene.add_contacts(friction=0.1)
    scene.add_contacts(friction=0.2, between=(moving[:2], [fixed[0], moving[3]]))
    found = laws(scene)
    assert found.pop(("floor", "b0")) == 0.9
    second = {("b1", "floor"), ("b0", "b3"), ("b1", "b3")}
    assert {pair for pair, mu in found.items() if mu == 0.2} == second
    assert {mu for pair, mu in found.items() if pair not in second} == {0.1}
    pairs = scene.body_pairs()
    asked, turned = pairs.laws_of(np.array([(0, 4), (4, 0), (1, 2), (4, 5), (1, 1)]))
    mu = [None if law < 0 else pairs.laws[law].friction.mu for law in asked]
    assert mu == [0.9, 0.9, 0.1, None, None]
    assert turned.tolist()[:2] == [True, False]
    assert all(isinstance(law, Law) for law in pairs.laws)


def test_files_hold_rules(bodies, tmp_path):
    scene, moving, fixed = bodies
    scene.add_contacts(friction=0.3, apart=[(moving[0], moving[1])])
    scene.add_contacts(friction=ist.FrictionEllipsoid(mu=0.2, e_r=0.01), between=(moving, fixed))
    scene.add_contacts(among=moving[:3], compliance=ist.Compliance(stiffness=1e4))
    scene.save(tmp_path / "scene.toml")
    again = ist.load_scene(tmp_path / "scene.toml")
    assert again.description().rules == scene.description().rules
    assert laws(again) == laws(scene)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"among": []}, "`among` has no body"),
        ({"among": ["b0"]}, "must be a handle"),
        ({"between": ([], [])}, "`between` has no body"),
        ({"friction": -1.0}, "mu"),
    ],
)
def test_bad_groups_are_refused(bodies, given, message):
    with pytest.raises(ValueError, match=message):
        bodies[0].add_contacts(**given)


@pytest.mark.parametrize(
    ("argument", "given", "message"),
    [
        ("among", lambda ball, floor: ball, r"`among` has .*'b0'.* where a list belongs: .* \[ball, floor\]"),
        ("among", lambda ball, floor: "all", "`among` has 'all' where a list belongs"),
        ("between", lambda ball, floor: (ball, floor), r"`between` has .*'b0'.* a list belongs: .* \(\[ball\], \[floor\]\)"),
        ("between", lambda ball, floor: 2, "`between` has 2 where a list belongs"),
        ("between", lambda ball, floor: (None, [floor]), "`between` has None where a list belongs"),
        ("between", lambda ball, floor: ("ball", "floor"), "`between` has 'ball' where a list belongs"),
        ("apart", lambda ball, floor: (ball, floor), r"`apart` has .*'b0'.* where a list belongs: .* \[\(ball, floor\)\]"),
        ("apart", lambda ball, floor: ball, "`apart` has .*'b0'.* where a list belongs"),
        ("apart", lambda ball, floor: [("b0", floor)], "`first` = 'b0' must be a handle"),
        ("apart", lambda ball, floor: None, "`apart` has None where a list belongs"),
    ],
)
def test_handles_that_are_not_nested_as_they_should_be_are_refused(bodies, argument, given, message):
    scene, moving, fixed = bodies
    with pytest.raises(ContactRuleError if "list" in message else PairError, match=message):
        scene.add_contacts(**{argument: given(moving[0], fixed[0])})
    assert scene.description().rules == ()


@pytest.mark.parametrize("parts", [0, (0, 0), "00", [[0, [0]]], np.zeros((1, 2, 2)), object(), [np.float64(0)]])
def test_parts_that_are_no_list_of_pairs_are_refused(bodies, parts):
    scene, moving, fixed = bodies
    with pytest.raises(ContactRuleError, match=r"`parts` = .* must list pairs \(i, j\), each once, of parts 0 to 0"):
        scene.add_contact(moving[0], fixed[0], parts=parts)
    assert scene.add_contact(moving[0], fixed[0], parts=np.array([[0, 0]])) == (0,)


def test_groups_given_twice_or_of_other_scenes_are_refused(bodies):
    scene, moving, fixed = bodies
    with pytest.raises(ValueError, match="both given"):
        scene.add_contacts(among=moving, between=(moving, fixed))
    with pytest.raises(ValueError, match="3 groups"):
        scene.add_contacts(between=(moving, fixed, moving))
    with pytest.raises(ValueError, match="another scene"):
        ist.Scene().add_contacts(among=moving)
    with pytest.raises(ValueError, match="both fixed"):
        scene.add_contacts(apart=[tuple(fixed)])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (lambda moving, fixed: {"among": moving[:1]}, r"`among` = \['b0'\]"),
        (lambda moving, fixed: {"among": fixed}, r"`among` = \['floor', 'post'\]"),
        (lambda moving, fixed: {"between": (moving[:1], moving[:1])}, r"`among` = \['b0'\]"),
        (lambda moving, fixed: {"between": (fixed[:1], fixed)}, r"`between` = \(\['floor'\], \['floor', 'post'\]\)"),
        (lambda moving, fixed: {"among": moving[:2], "apart": [tuple(moving[:2])]}, r"`among` = \['b0', 'b1'\]"),
    ],
)
def test_a_rule_that_lets_no_pair_touch_is_refused_with_its_names(bodies, given, names):
    scene, moving, fixed = bodies
    with pytest.raises(ContactRuleError, match=rf"{names} lets no two bodies touch"):
        scene.add_contacts(**given(moving, fixed))
    assert scene.description().rules == ()
    scene.add_contacts(between=(moving[:1], [moving[0], fixed[0]]))
    assert scene.pair_count() == 1


def test_a_rule_whose_pairs_are_joined_later_is_refused_as_the_scene_is_built(bodies):
    scene, moving, _ = bodies
    scene.add_contacts(among=moving[:2])
    scene.add_joint(*moving[:2], ist.Distance(point_1=(0, 0, 0), point_2=(0, 0, 0), length=1.0))
    with pytest.raises(ContactRuleError, match=r"`among` = \['b0', 'b1'\] lets no two bodies touch"):
        scene.build()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('among = "all"\nbetween = [["a"], ["a"]]', "both given"),
        ('between = [["a"]]', "give two"),
        ("among = 3", "must be a list"),
        ('among = ["a", "b"]', "names the body 'b'"),
        ('among = "all"\napart = [["a"]]', "pairs of names"),
    ],
)
def test_files_with_bad_groups_are_refused(tmp_path, table, message):
    path = tmp_path / "scene.toml"
    ball = '[[body]]\nname = "a"\nshape = { kind = "Sphere", radius = 1 }\nposition = [0, 0, 2]\ndensity = 1\n'
    path.write_text(f"format = 1\n{ball}[[contact]]\n{table}\n")
    with pytest.raises(ist.SceneFileError, match=message):
        ist.load_scene(path)
