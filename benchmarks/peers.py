"""Other simulators on scenes of `implicit_stepper.paper.comparisons`: MuJoCo and Drake, from PyPI
(`.[bench]`).

Each peer is a function of a case's name and of its accuracy setting, which returns a `Run`. A first
run records the motion and warms up; those that are timed step and do nothing else. Both model
contact as compliant, so their error has a part that a shorter step removes only because the
settings below stiffen the contact with it.

MuJoCo has neither a superquadric nor a support function of one's own, and Drake neither of them; a
mesh would be another body. Drake's point contact has no drilling friction: its `two-spheres` is
example 3 with e_r = 0, where both contacts may roll, another motion.

MuJoCo. Elliptic cones, Newton's solver to 1e-12; `condim` 4 gives the same friction ellipsoid as
ours where e_r > 0. Tried, at steps of 1 and .1 ms: Euler, implicitfast, RK4; `solref` in both
forms, stiffness 1e3 to 1e7 [1/s^2], damping ratio .05 to 10 and time constants of 2 to 20 steps;
`solimp` .1 to .9999; `impratio` 1 to 1e4; the friction dimensions damped like the normal (the
default) or apart (`solreffriction`). What matters most is the last: damped alike, a sliding contact
is lifted (by the relaxed cone) and chatters, which leaves 1 to 3 cm in example 3 whatever the step.
Euler's method is best for its price: RK4 takes four times as long and gains less.

Drake. Point contact. Tried: TAMSI, SAP (near-rigid threshold 0, relaxation times of 1 to 1000
steps), Lagged and Similar; stiffness 1e4 to 1e8 N/m, dissipation 0 to 100 s/m, stiction tolerance
1e-3 to 1e-5 m/s; continuous: CENIC, runge_kutta3, implicit_euler and radau3. Lagged and Similar
gain nothing over SAP on the ellipsoid, and Lagged is 9 cm off on the stiff ball; the last three
integrators, tried on the ellipsoid, were slower for their error than what is kept.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from implicit_stepper.paper.comparisons import CASES

SAMPLES = 200  # of the motion in which MuJoCo's error is looked for; Drake records every step


@dataclass(frozen=True)
class Run:
    """time (n,) [s], position (n, 3) [m] of the moving body; seconds (repeats,) [s] of wall time,
    stepping alone."""

    time: np.ndarray
    position: np.ndarray
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Peer:
    """`run(case, setting, repeats)`; `settings`: the steps [s], or accuracies if `adaptive`, to
    compare at. `unlike`: why it solves another problem, by case."""

    run: Callable[[str, float, int], Run]
    settings: tuple[float, ...]
    adaptive: bool = False
    unlike: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Problem:
    """What `scenes` builds, as numbers: the moving body is an ellipsoid of `semi_axes` [m];
    `spheres` are the fixed ones, radius and centre [m], in place of the plane z = 0 if any."""

    semi_axes: tuple[float, float, float]
    mu: float
    e_r: float = 0.0
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    spheres: tuple[tuple[float, tuple[float, float, float]], ...] = ()

    @property
    def is_ball(self) -> bool:
        return len(set(self.semi_axes)) == 1


_PROBLEMS = {
    "two-spheres": _Problem(
        (1.0, 1.0, 1.0), 0.2, 0.3, (1.0, 2.6, -9.81), ((10.0, (0.0, 0.0, 0.0)), (9.0, (0.0, 11.4, 0.0)))
    ),  # its constant force, on 1 kg
    "ellipsoid": _Problem((0.5, 0.4, 0.3), 1.0),
    "ball": _Problem((0.25, 0.25, 0.25), 0.2),
}


def _start(case: str):
    """Position (3,) [m], unit quaternion (4,), velocity (6,) [m/s, rad/s], and principal moments
    (3,) [kg m^2] at 1 kg."""
    system, state = CASES[case].scene().build()
    return (
        *(np.asarray(value)[0] for value in (state.position, state.orientation, state.velocity)),
        np.diag(np.asarray(system.inertia)[0]),
    )


def _timed(advance: Callable[[], None]) -> float:
    start = time.perf_counter()
    advance()
    return time.perf_counter() - start


# By case: damping ratio of the normal, damping of the friction dimensions [1/s] at a step h [s],
# impedance.
_MUJOCO = {
    "two-spheres": (1.0, lambda h: min(h**-0.5, 100.0), 0.9),
    "ellipsoid": (1.0, lambda h: 0.3 / h, 0.5),
    "ball": (5.0, lambda h: 0.3 / h, 0.5),
}


def mujoco(case: str, h: float, repeats: int = 1) -> Run:
    """MuJoCo in steps of h [s]; the contact's stiffness is 1/(10 h)^2 [1/s^2]."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(_mjcf(case, h))
    position, quaternion, velocity, _ = _start(case)
    steps = round(CASES[case].duration / h)

    def begin():
        data = mujoco.MjData(model)
        data.qpos[:] = np.concatenate([position, quaternion])
        turned = np.empty(3)
        mujoco.mju_rotVecQuat(turned, velocity[3:], quaternion * [1.0, -1.0, -1.0, -1.0])
        # its angular velocity is in body axes
        data.qvel[:] = np.concatenate([velocity[:3], turned])
        return data

    data = begin()
    marks = np.unique(np.linspace(0, steps, SAMPLES + 1).round().astype(int))
    positions = [position]
    for count in np.diff(marks):
        mujoco.mj_step(model, data, count)
        positions.append(data.qpos[:3].copy())
    seconds = []
    for _ in range(repeats):
        data = begin()
        seconds.append(_timed(lambda data=data: mujoco.mj_step(model, data, steps)))
    return Run(marks * h, np.array(positions), tuple(seconds))


def _mjcf(case: str, h: float) -> str:
    problem, (ratio, friction_damping, impedance) = _PROBLEMS[case], _MUJOCO[case]
    moments = " ".join(map(repr, _start(case)[3].tolist()))
    shape = "sphere" if problem.is_ball else "ellipsoid"
    size, gravity = (" ".join(map(repr, values)) for values in (problem.semi_axes, problem.gravity))
    fixed = [
        f'<geom name="fixed {i}" type="sphere" size="{radius}" pos="{centre[0]} {centre[1]} {centre[2]}"/>'
        for i, (radius, centre) in enumerate(problem.spheres)
    ] or ['<geom name="fixed 0" type="plane" size="0 0 1"/>']
    stiffness, friction = (0.1 / h) ** 2, f"{problem.mu} {problem.mu} {problem.mu * problem.e_r} 0 0"
    pairs = [
        f'<pair geom1="fixed {i}" geom2="moving" condim="{4 if problem.e_r else 3}" friction="{friction}" '
        f'solref="{-stiffness} {-2.0 * ratio * stiffness**0.5}" solreffriction="-1 {-friction_damping(h)}" '
        f'solimp="{impedance} {impedance} 0.001"/>'
        for i in range(len(fixed))
    ]
    return f"""
        <mujoco>
          <option timestep="{h}" gravity="{gravity}" integrator="Euler" cone="elliptic" impratio="100"
                  solver="Newton" tolerance="1e-12" iterations="200"/>
          <default><geom contype="0" conaffinity="0"/></default>
          <worldbody>
            {"".join(fixed)}
            <body>
              <freejoint/>
              <inertial pos="0 0 0" mass="1" diaginertia="{moments}"/>
              <geom name="moving" type="{shape}" size="{size}"/>
            </body>
          </worldbody>
          <contact>{"".join(pairs)}</contact>
        </mujoco>"""


@dataclass(frozen=True)
class _Contact:
    """Drake's point contact: stiffness [N/m] and dissipation [s/m] of a contact, stiction tolerance
    [m/s], and SAP's relaxation time in steps."""

    stiffness: float
    dissipation: float
    stiction: float = 1e-5
    relaxation: float = 1.0


def drake(scheme: str, contact: Callable[[float], _Contact]) -> Callable[[str, float, int], Run]:
    """Drake's discrete approximation `scheme`, tamsi or sap, at a step, or its error-controlled
    integrator cenic at an accuracy."""

    def run(case: str, setting: float, repeats: int = 1) -> Run:
        times, positions = [], []
        simulator, position = _drake_simulator(case, scheme, setting, contact(setting))

        def record(_):
            times.append(simulator.get_context().get_time())
            positions.append(position())

        simulator.set_monitor(record)
        simulator.Initialize()  # records the start
        simulator.AdvanceTo(CASES[case].duration)
        seconds = []
        for _ in range(repeats):
            simulator, _ = _drake_simulator(case, scheme, setting, contact(setting))
            simulator.Initialize()
            seconds.append(_timed(lambda simulator=simulator: simulator.AdvanceTo(CASES[case].duration)))
        return Run(np.array(times), np.array(positions), tuple(seconds))

    return run


def _drake_simulator(case: str, scheme: str, setting: float, contact: _Contact):
    """A simulator at the case's start, and a function for the position (3,) [m]."""
    import pydrake.all as pydrake

    # it warns that half spaces do not touch deformable bodies
    logging.getLogger("drake").setLevel(logging.ERROR)
    adaptive, problem = scheme == "cenic", _PROBLEMS[case]
    builder = pydrake.DiagramBuilder()
    plant, _ = pydrake.AddMultibodyPlantSceneGraph(builder, 0.0 if adaptive else setting)
    plant.set_name("plant")
    plant.set_contact_model(pydrake.ContactModel.kPoint)
    plant.set_stiction_tolerance(contact.stiction)
    if not adaptive:
        approximation = {"tamsi": "kTamsi", "sap": "kSap"}[scheme]
        plant.set_discrete_contact_approximation(getattr(pydrake.DiscreteContactApproximation, approximation))
        plant.set_sap_near_rigid_threshold(0.0)
    start, quaternion, velocity, moments = _start(case)
    body = plant.AddRigidBody("body", pydrake.SpatialInertia(1.0, np.zeros(3), pydrake.UnitInertia(*moments)))
    moving = pydrake.Sphere(problem.semi_axes[0]) if problem.is_ball else pydrake.Ellipsoid(*problem.semi_axes)
    shapes = [(body, pydrake.RigidTransform(), moving)]
    shapes += [
        (plant.world_body(), pydrake.RigidTransform(np.array(centre)), pydrake.Sphere(radius))
        for radius, centre in problem.spheres
    ] or [(plant.world_body(), pydrake.RigidTransform(), pydrake.HalfSpace())]
    for number, (owner, pose, shape) in enumerate(shapes):
        properties = pydrake.ProximityProperties()
        pydrake.AddContactMaterial(
            properties=properties,
            dissipation=contact.dissipation,
            point_stiffness=2.0 * contact.stiffness,  # two in series
            friction=pydrake.CoulombFriction(problem.mu, problem.mu),
        )
        if scheme == "sap":
            # they add up
            properties.AddProperty("material", "relaxation_time", contact.relaxation * setting / 2.0)
        plant.RegisterCollisionGeometry(owner, pose, shape, f"shape {number}", properties)
    plant.mutable_gravity_field().set_gravity_vector(problem.gravity)
    plant.Finalize()
    simulator = pydrake.Simulator(builder.Build())
    if adaptive:
        pydrake.ResetIntegratorFromFlags(simulator, "cenic", CASES[case].duration / 10.0)
        simulator.get_mutable_integrator().set_target_accuracy(setting)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    pose = pydrake.RigidTransform(pydrake.Quaternion(quaternion / np.linalg.norm(quaternion)), start)
    plant.SetFreeBodyPose(context, body, pose)
    plant.SetFreeBodySpatialVelocity(context, body, pydrake.SpatialVelocity(velocity[3:], velocity[:3]))
    return simulator, lambda: plant.GetPositions(context)[4:].copy()


def _fixed(_: float) -> _Contact:
    """So stiff and dissipative that bodies neither bounce nor sink by more than 1e-6 m; SAP
    dissipates by its relaxation time instead."""
    return _Contact(1e7, 100.0, relaxation=100.0)


def _adaptive(accuracy: float) -> _Contact:
    """CENIC takes ever shorter steps to land on a stiffer contact: it pays at high accuracy
    only."""
    return _Contact(1e5 if accuracy > 1e-8 else 1e6, 10.0)


_STEPS, _ACCURACIES = (1e-2, 2.5e-3, 1e-3, 2.5e-4, 1e-4), (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_NO_DRILLING = {"two-spheres": "no drilling friction"}
PEERS: Mapping[str, Peer] = {
    "MuJoCo": Peer(mujoco, (*_STEPS, 2.5e-5)),
    "Drake TAMSI": Peer(drake("tamsi", _fixed), _STEPS, unlike=_NO_DRILLING),
    "Drake SAP": Peer(drake("sap", _fixed), _STEPS, unlike=_NO_DRILLING),
    "Drake CENIC": Peer(drake("cenic", _adaptive), _ACCURACIES, adaptive=True, unlike=_NO_DRILLING),
}
