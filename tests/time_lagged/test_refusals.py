"""What comparators do not know of contacts is refused by name, with the steppers that do; and so
are restitutions by all that takes steps of given length but runs of `simulate`, batches, rollouts
and derivatives of these."""

import pytest

import implicit_stepper as ist
import shapes

BEFOREHAND = [ist.ConeComplementarity(), ist.Linearized(), ist.Convex(), ist.Explicit()]
EVERY = [*BEFOREHAND, ist.ClosedFormGap(), ist.RadauContact()]
E = ist.Newton(0.5)
named = pytest.mark.parametrize


def ball(height=1.0, friction=0.3, **law):
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    falls = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1 + height))
    scene.add_contact(floor, falls, friction=friction, **law)
    return scene


def name(stepper):
    return type(stepper).__name__


@named("stepper", EVERY, ids=name)
@named("law", [E, ist.Poisson(0.0)], ids=["Newton", "Poisson"])
def test_rebounds_are_refused_in_runs_and_by_hand(stepper, law):
    """Also a share of 0, which asks for the law."""
    told = r"floor and ball have a `restitution`, .* by GeometricallyImplicit\(\) or by RadauContact\(\) with `tol`"
    with pytest.raises(ist.errors.StepperError, match=told):
        ist.simulate(ball(restitution=law), stepper, h=0.01, duration=0.1)
    with pytest.raises(ist.errors.StepperError, match=told):
        stepper.init(*ball(restitution=law).build())


@named("stepper", [ist.ConeComplementarity(), ist.Linearized(), ist.Explicit()], ids=name)
def test_compliance_is_refused_by_those_that_have_none(stepper):
    told = (
        "the contact of floor and ball has a `compliance`: use GeometricallyImplicit, RadauContact, ClosedFormGap or Convex"
    )
    with pytest.raises(ist.errors.StepperError, match=told):
        ist.simulate(ball(compliance=ist.Compliance(1e4)), stepper, h=0.01, duration=0.1)


@named("stepper", BEFOREHAND, ids=name)
def test_a_second_coefficient_of_friction_is_refused(stepper):
    friction = ist.FrictionEllipsoid(0.2, mu_s=0.3)
    with pytest.raises(ist.errors.StepperError, match="one coefficient .* floor and ball a `mu_s` .*: take Geometrically"):
        ist.simulate(ball(friction=friction), stepper, h=0.01, duration=0.1)


@named("stepper", BEFOREHAND, ids=name)
def test_chosen_steps_are_refused(stepper):
    with pytest.raises(ist.errors.StepperError, match=r"`stepper` = .* RadauContact\(\)"):
        ist.simulate(ball(), stepper, tol=1e-6, duration=0.1)
