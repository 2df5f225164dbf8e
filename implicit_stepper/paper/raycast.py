"""Shaded spheres as an image, seen from infinity, in which what is behind is hidden: matplotlib's
3-D axes cannot."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np

from ..model import poses

# right, up, to the viewer
LIGHT = np.array([-0.45, 0.65, 0.6]) / np.linalg.norm([-0.45, 0.65, 0.6])


@dataclasses.dataclass(frozen=True)
class Ball:
    """A sphere to draw: centre (3,) [m], radius [m], colour (3,) in 0..1; with a `quaternion` (4,),
    w first, its octants alternate in brightness, which shows how it turns."""

    centre: np.ndarray
    radius: float
    colour: tuple[float, float, float]
    quaternion: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Camera:
    """A view from infinity: `azimuth` from the x axis and `elevation` from the horizontal plane
    [rad]; `window`, the (left, right, bottom, top) [m] shown, in the camera's own coordinates about
    the origin of the scene."""

    azimuth: float
    elevation: float
    window: tuple[float, float, float, float]

    @property
    def axes(self) -> np.ndarray:
        """Unit vectors to the right, up, and to the viewer, as rows (3, 3)."""
        (sa, ca), (se, ce) = ((np.sin(a), np.cos(a)) for a in (self.azimuth, self.elevation))
        return np.array([[-sa, ca, 0.0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]])

    def project(self, points) -> np.ndarray:
        """World points (..., 3) [m] to picture coordinates (..., 2) [m]."""
        return np.asarray(points) @ self.axes[:2].T


class Raster:
    """What a camera sees of the balls painted so far, two samples along each side of a pixel
    against ragged edges."""

    def __init__(self, camera: Camera, height: int):
        """`height` of the image in pixels; its width follows from the camera's window."""
        left, right, bottom, top = camera.window
        width = round(height * (right - left) / (top - bottom))
        self.camera = camera
        self.u = left + (np.arange(2 * width) + 0.5) / (2 * width) * (right - left)
        self.v = top - (np.arange(2 * height) + 0.5) / (2 * height) * (top - bottom)
        self.colour = np.zeros((2 * height, 2 * width, 4))
        self.depth = np.full((2 * height, 2 * width), -np.inf)

    def copy(self) -> Raster:
        """Another one to paint on, the same so far."""
        other = copy.copy(self)
        other.colour, other.depth = self.colour.copy(), self.depth.copy()
        return other

    def paint(self, ball: Ball) -> Raster:
        """Adds a ball where it is nearer to the camera than what is there, and returns this
        raster."""
        axes = self.camera.axes
        centre = axes @ ball.centre
        rows, columns = (np.flatnonzero(np.abs(w - c) < ball.radius) for w, c in ((self.v, centre[1]), (self.u, centre[0])))
        du, dv = (self.u[columns] - centre[0])[None, :], (self.v[rows] - centre[1])[:, None]
        height = np.sqrt(np.maximum(ball.radius**2 - du**2 - dv**2, 0.0))
        i, j = np.nonzero((height > 0.0) & (centre[2] + height > self.depth[np.ix_(rows, columns)]))
        normal = np.stack([du[0, j], dv[i, 0], height[i, j]], axis=-1) / ball.radius
        shade = 0.62 + 0.38 * np.maximum(normal @ LIGHT, 0.0)
        if ball.quaternion is not None:
            octant = np.prod(np.sign(normal @ axes @ poses.matrices(np.asarray(ball.quaternion))), axis=-1)
            shade = shade * np.where(octant > 0.0, 1.0, 0.72)
        self.depth[rows[i], columns[j]] = centre[2] + height[i, j]
        self.colour[rows[i], columns[j], :3] = shade[:, None] * ball.colour
        self.colour[rows[i], columns[j], 3] = 1.0
        return self

    def image(self) -> np.ndarray:
        """(height, width, 4), first row on top, transparent where nothing is."""
        mean = (self.colour[0::2] + self.colour[1::2])[:, 0::2] + (self.colour[0::2] + self.colour[1::2])[:, 1::2]
        mean[..., :3] /= np.maximum(mean[..., 3:], 1.0)  # the colour of the samples that were hit
        mean[..., 3] /= 4.0
        return mean
