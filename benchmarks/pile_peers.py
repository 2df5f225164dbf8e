"""The pile of spheres of `piles.py` in MuJoCo and in Drake, from PyPI (`.[bench]`).

Both have compliant contacts. MuJoCo: elliptic cones, Newton's solver, solver tolerance 1e-8 (its
default), contacts as stiff as its documentation advises for the step (a time constant of 2 h,
critically damped). Drake: SAP with point contacts of 1e6 N/m, dissipated over a step, tolerances as
they come; a run ends where it does not converge. Each peer is a function of (state, bodies, planes,
mu, h, steps) that returns positions and CPU seconds of every step; `bodies`: radius [m] and mass
[kg] of each; `planes`: pairs of a unit normal and an offset [m].
"""

import logging
import time

import numpy as np


def mujoco(state, bodies, planes, mu, h, steps):
    """MuJoCo, without a picture of anything."""
    import mujoco

    worldbody = []
    for number, (normal, offset) in enumerate(planes):
        place, axis = (" ".join(f"{value:.17g}" for value in v) for v in (np.multiply(offset, normal), normal))
        worldbody.append(f'<geom name="plane {number}" type="plane" size="0 0 1" pos="{place}" zaxis="{axis}"/>')
    for position, (radius, mass) in zip(np.asarray(state.position), bodies, strict=True):
        place = " ".join(f"{value:.17g}" for value in position)
        ball = f'<geom type="sphere" size="{radius}" mass="{mass}"/>'
        worldbody.append(f'<body pos="{place}"><freejoint/>{ball}</body>')
    model = mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <option timestep="{h}" integrator="Euler" cone="elliptic" solver="Newton"/>
          <size memory="2G"/>
          <default><geom condim="3" friction="{mu} 0 0" solref="{2 * h} 1"/></default>
          <worldbody>{"".join(worldbody)}</worldbody>
        </mujoco>""")
    data = mujoco.MjData(model)
    positions, seconds = [data.qpos.reshape(-1, 7)[:, :3].copy()], []
    for _ in range(steps):
        begun = time.process_time()
        mujoco.mj_step(model, data)
        seconds.append(time.process_time() - begun)
        positions.append(data.qpos.reshape(-1, 7)[:, :3].copy())
    return np.array(positions), np.array(seconds)


def drake(state, bodies, planes, mu, h, steps):
    """Drake's SAP."""
    import pydrake.all as pydrake

    # it warns that half spaces do not touch deformable bodies
    logging.getLogger("drake").setLevel(logging.ERROR)
    builder = pydrake.DiagramBuilder()
    plant, _ = pydrake.AddMultibodyPlantSceneGraph(builder, h)
    plant.set_contact_model(pydrake.ContactModel.kPoint)
    plant.set_discrete_contact_approximation(pydrake.DiscreteContactApproximation.kSap)
    plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -9.81])
    properties = pydrake.ProximityProperties()
    pydrake.AddContactMaterial(
        properties=properties, dissipation=0.0, point_stiffness=2e6, friction=pydrake.CoulombFriction(mu, mu)
    )  # two in series
    properties.AddProperty("material", "relaxation_time", h / 2)  # they add up
    for number, (normal, offset) in enumerate(planes):
        pose = pydrake.HalfSpace.MakePose(np.array(normal, float), np.multiply(offset, normal))
        plant.RegisterCollisionGeometry(plant.world_body(), pose, pydrake.HalfSpace(), f"plane {number}", properties)
    for number, (radius, mass) in enumerate(bodies):
        inertia = pydrake.SpatialInertia(mass, np.zeros(3), pydrake.UnitInertia.SolidSphere(radius))
        body = plant.AddRigidBody(f"b{number}", inertia)
        plant.RegisterCollisionGeometry(body, pydrake.RigidTransform(), pydrake.Sphere(radius), f"s{number}", properties)
    plant.Finalize()
    simulator = pydrake.Simulator(builder.Build())
    simulator.set_target_realtime_rate(0.0)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    for number, position in enumerate(np.asarray(state.position)):
        plant.SetFreeBodyPose(context, plant.GetBodyByName(f"b{number}"), pydrake.RigidTransform(position))
    simulator.Initialize()

    def now():
        return plant.GetPositions(context).reshape(-1, 7)[:, 4:].copy()

    positions, seconds = [now()], []
    for step in range(1, steps + 1):
        begun = time.process_time()
        try:
            simulator.AdvanceTo(step * h)
        except RuntimeError:  # SAP did not converge
            break
        seconds.append(time.process_time() - begun)
        positions.append(now())
    return np.array(positions), np.array(seconds)
