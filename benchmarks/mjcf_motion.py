"""A robot of all joints, moved by MuJoCo's Runge-Kutta integration and by RadauContact: how far
apart they get."""

import tempfile
from pathlib import Path

import mujoco
import numpy as np

import implicit_stepper as ist

DURATION = 0.2
ROBOT = """
<mujoco>
  <option timestep="1e-4" integrator="RK4"/>
  <compiler angle="radian"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="free" pos="0 0 3"><freejoint/><geom type="box" size=".1 .2 .3" pos=".1 0 .05"/></body>
    <body name="ball" pos="2 0 2">
      <joint type="ball" pos="0 0 .3"/><geom type="ellipsoid" size=".1 .15 .2"/>
      <body name="universal" pos="0 .1 -.5" euler=".2 0 0">
        <joint axis="1 0 0" pos="0 0 .2"/><joint axis="0 1 0" pos="0 0 .2"/>
        <geom type="cylinder" size=".05 .2" pos=".02 0 0"/>
        <body name="cylindrical" pos="0 0 -.3">
          <joint type="slide" axis="0 0 1" stiffness="30" damping=".3" springref=".05"/>
          <joint axis="0 0 1" damping=".01"/><geom type="box" size=".1 .02 .05" pos=".05 0 0"/>
        </body>
      </body>
    </body>
    <body name="planar" pos="-2 0 1">
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
      <joint axis="0 1 0" stiffness="2" damping=".05" springref="1"/><geom size=".2"/>
      <body name="hinge" pos=".4 .1 0" gravcomp=".5">
        <joint axis="0 1 1" ref=".3" stiffness="3" springref="1.3"/>
        <geom type="capsule" fromto="0 0 0 .3 .05 .02" size=".03"/>
      </body>
    </body>
  </worldbody>
  <keyframe>
    <key name="begin" qpos="0 0 3 1 0 0 0  .8 .6 0 0 .2 .3 .04 .1  .1 .2 .3 .5"
         qvel=".1 .2 .3 1 2 3  1 .5 -.2 .3 -.4 .5 1  .3 1 -2 1"/>
  </keyframe>
</mujoco>
"""


def main() -> None:
    """Prints, for each body, the largest difference of a rotation's entries and of the centre of
    mass."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        path.write_text(ROBOT)
        scene, left_out = ist.load_mjcf(path, keyframe="begin")
        model = mujoco.MjModel.from_xml_path(str(path))
    print(*left_out, sep="\n")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(round(DURATION / model.opt.timestep)):
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-9, duration=DURATION)
    for number in range(1, model.nbody):
        name, turn = model.body(number).name, np.zeros(9)
        mujoco.mju_quat2Mat(turn, np.array(run.body(name).orientation[-1]))
        apart = np.max(np.abs(run.body(name).position[-1] - data.xipos[number]))
        print(f"{name:12} rotation {np.max(np.abs(turn - data.xmat[number])):.1e}, centre of mass {apart:.1e} m")


if __name__ == "__main__":
    main()
