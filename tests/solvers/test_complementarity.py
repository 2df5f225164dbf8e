"""Functions whose roots are complementary: roots, distance from a root, digits, and derivatives at
and away from kinks.

Oracles: the minimum and the projection onto the cone, written here in numpy; 40-digit arithmetic
(mpmath); bounds proved in the literature or in the docstrings below.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_stepper.solvers import complementarity
from implicit_stepper.solvers.complementarity import length_of, project_to_disc

fischer_burmeister = jax.jit(complementarity.fischer_burmeister)
fischer_burmeister_cone = jax.jit(complementarity.fischer_burmeister_cone)
natural_disc = jax.jit(complementarity.natural_disc)
number_slopes = jax.jit(jax.grad(complementarity.fischer_burmeister, (0, 1, 2)))
cone_slopes = jax.jit(jax.jacfwd(complementarity.fischer_burmeister_cone, (0, 1)))
disc_slopes = jax.jit(jax.jacfwd(complementarity.natural_disc, (0, 1)))

EPS = np.finfo(float).eps
STEP = complementarity.STEP  # of the natural map: the roots do not depend on it, bounds do
# fischer_burmeister is |phi| <= (2 + sqrt 2) |min(a, b)| and >= (2 - sqrt 2) |min(a, b)|, Tseng
# (1996); the same holds for symmetric cones with x - proj(x - s) for the minimum, Bi, Pan and Chen
# (2012).
LEAST, MOST = 2 - np.sqrt(2), 2 + np.sqrt(2)


def not_tiny(value):
    """Zero for what would underflow in a fourth power; arguments are dimensionless and stand
    against 1."""
    return value if abs(value) > 1e-60 else 0.0


numbers = st.floats(-1e3, 1e3).map(not_tiny)
amounts = st.floats(1e-6, 1e3)


def mp(*values):
    return [mpmath.mpf(float(v)) for v in values]


def exact_fischer_burmeister(a, b, kappa=0.0):
    """To double precision, whatever cancels."""
    with mpmath.workdps(60):
        a, b, kappa = mp(a, b, kappa)
        return float(mpmath.sqrt(a**2 + b**2 + 2 * kappa**2) - a - b)


# --- numbers -------------------------------------------------------------------------------------


@given(amounts)
def test_number_complementary_pairs_are_roots(a):
    assert fischer_burmeister(a, 0.0) == 0.0
    assert fischer_burmeister(0.0, a) == 0.0


@given(numbers, numbers)
def test_number_value_measures_the_violation(a, b):
    """Bounded on both sides by |min(a, b)|, so that it vanishes if and only if a and b are
    complementary."""
    phi, violation = abs(float(fischer_burmeister(a, b))), abs(min(a, b))
    round_off = 4 * EPS * (abs(a) + abs(b))
    assert LEAST * violation - round_off <= phi <= MOST * violation + round_off


@given(amounts, amounts, st.floats(1e-3, 10))
def test_number_smoothed_value_has_the_sign_of_kappa_squared_minus_the_product(a, b, kappa):
    """Hence its roots are a b = kappa^2 in the positive quadrant; elsewhere it is positive."""
    excess = kappa**2 - a * b
    if abs(excess) > 4 * EPS * (kappa**2 + a * b):
        assert np.sign(fischer_burmeister(a, b, kappa)) == np.sign(excess)
    assert fischer_burmeister(-a, b, kappa) > 0
    assert fischer_burmeister(-a, -b, kappa) > 0


@given(amounts, st.floats(1e-3, 10))
def test_number_smoothed_root(a, kappa):
    b = kappa**2 / a
    # phi = 2 (kappa^2 - a b) / (r + a + b), whose numerator is what rounding b and two products
    # leaves
    assert abs(fischer_burmeister(a, b, kappa)) <= 4 * EPS * kappa**2 / (a + b)


@pytest.mark.parametrize(
    ("a", "b"),
    [(1.0, 1e-18), (1e-18, 1.0), (1e8, 1e-9), (3.0, 4.0), (1.0, -1e-18), (1e-20, 2e-20), (-1.0, 2.0), (-1e-9, 1.0)],
)
@pytest.mark.parametrize("kappa", [0.0, 1e-3])
def test_number_value_keeps_its_digits(a, b, kappa):
    """sqrt(1 + 1e-36) - 1 - 1e-18 is -1e-18, which a naive sum rounds to 0."""
    np.testing.assert_allclose(fischer_burmeister(a, b, kappa), exact_fischer_burmeister(a, b, kappa), rtol=1e-14, atol=0)


def slopes(a, b, kappa=0.0):
    return np.array(number_slopes(float(a), float(b), float(kappa)))


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.4), (2.0, 1e-3), (0.7, -0.2), (-1.0, -3.0), (0.0, 0.5), (1e-6, 1e-6)])
@pytest.mark.parametrize("kappa", [0.0, 0.1])
def test_number_derivative_matches_finite_differences(a, b, kappa):
    def phi(a, b, kappa):
        return mpmath.sqrt(a**2 + b**2 + 2 * kappa**2) - a - b

    with mpmath.workdps(40):
        expected = [float(mpmath.diff(phi, tuple(mp(a, b, kappa)), tuple(order))) for order in np.eye(3, dtype=int)]
    # kappa = 0 is smoothed by 1e-12 for derivatives, which changes a / r by (1e-12 / r)^2; its own
    # slope is then not meant
    known, round_off = 3 if kappa else 2, 10 * EPS + 1e-24 / (a**2 + b**2)
    np.testing.assert_allclose(slopes(a, b, kappa)[:known], expected[:known], rtol=0, atol=round_off)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-20, 1e-12, 1e-9])
def test_number_derivative_near_the_kink_is_in_the_generalised_derivative(size):
    """Clarke's at (0, 0) is {(u - 1, v - 1): u^2 + v^2 <= 1}, and every element lies in the ball
    around (-1, -1)."""
    for angle in np.linspace(0, 2 * np.pi, 9):
        d = slopes(size * np.cos(angle), size * np.sin(angle))
        assert np.hypot(d[0] + 1, d[1] + 1) <= 1 + 4 * EPS


# --- second-order cone ---------------------------------------------------------------------------


def project_to_cone(v):
    """Closest point of {v0 >= |v1|}, from its spectral decomposition."""
    length = np.linalg.norm(v[1:])
    along = v[1:] / length if length > 0 else np.eye(len(v) - 1)[0]
    high, low = max(v[0] + length, 0), max(v[0] - length, 0)
    return np.concatenate([[high + low], (high - low) * along]) / 2


def complementary_pair(rng, k, kind):
    """x and s in the cone with x.s = 0: one of them zero, or both on opposite rays of the
    boundary."""
    ray = rng.normal(size=k)
    ray /= np.linalg.norm(ray)
    zero, inside, edge = np.zeros(1 + k), np.concatenate([[1.5], 0.8 * ray]), np.concatenate([[1.0], ray])
    opposite = np.concatenate([[0.3], -0.3 * ray])
    return {
        "x inside": (inside, zero),
        "s inside": (zero, inside),
        "x on the boundary": (edge, zero),
        "s on the boundary": (zero, edge),
        "both on the boundary": (edge, opposite),
        "both zero": (zero, zero),
    }[kind]


KINDS = ["x inside", "s inside", "x on the boundary", "s on the boundary", "both on the boundary", "both zero"]
SMOOTH_KINDS = ["x inside", "s inside", "both on the boundary"]
KINKS = ["x on the boundary", "s on the boundary", "both zero"]
every_size = pytest.mark.parametrize("k", [1, 2, 3])


@every_size
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_cone_complementary_pairs_are_roots(kind, k, scale):
    x, s = (scale * v for v in complementary_pair(np.random.default_rng(k), k, kind))
    # rays of length 1 are rounded by eps, hence x.s by eps and phi, of slope <= MOST, by a few eps
    np.testing.assert_allclose(fischer_burmeister_cone(x, s), 0.0, atol=10 * EPS * scale)


def vectors(k):
    return st.lists(st.floats(-10, 10).map(not_tiny), min_size=1 + k, max_size=1 + k).map(np.array)


@every_size
def test_cone_value_measures_the_violation(k):
    """Bounded on both sides by the natural residual |x - proj(x - s)|, so that it vanishes only at
    complementary pairs."""

    @given(vectors(k), vectors(k))
    def check(x, s):
        phi = np.linalg.norm(fischer_burmeister_cone(x, s))
        violation = np.linalg.norm(x - project_to_cone(x - s))
        round_off = 20 * EPS * (np.linalg.norm(x) + np.linalg.norm(s))
        assert LEAST * violation - round_off <= phi <= MOST * violation + round_off

    check()


@every_size
@pytest.mark.parametrize("kappa", [1e-6, 1e-2, 1.0])
def test_cone_smoothed_roots_are_inverses(k, kappa):
    """x o s = kappa^2 e for s = kappa^2 x^-1 with the Jordan inverse (x0, -x1) / (x0^2 -
    |x1|^2)."""
    rng = np.random.default_rng(k)
    for fraction in (0.0, 0.5, 0.99):
        ray = rng.normal(size=k)
        x = np.concatenate([[1.0], fraction * ray / np.linalg.norm(ray)])
        s = kappa**2 * np.concatenate([x[:1], -x[1:]]) / (1 - fraction**2)
        np.testing.assert_allclose(fischer_burmeister_cone(x, s, kappa), 0.0, atol=20 * EPS * (1 + np.max(s)))


def jordan(a, b):
    return np.concatenate([[a @ b], a[0] * b[1:] + b[0] * a[1:]])


@every_size
@pytest.mark.parametrize("distance", [1.0, 1e-3, 1e-8, 1e-14, 0.0, -1e-14, -1e-3])
def test_cone_square_root_squares_to_what_it_should(k, distance):
    """u = phi + x + s has u o u = x o x + s o s, for x and s at a relative `distance` from the
    boundary of the cone."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        ray, size = rng.normal(size=k), rng.uniform(0.1, 2, 2)
        ray /= np.linalg.norm(ray)
        x = size[0] * np.concatenate([[1 + distance], ray])
        for s in (size[1] * np.concatenate([[1 + distance], -ray]), size[1] * x, 0 * x, size[1] * rng.normal(size=1 + k)):
            u = np.asarray(fischer_burmeister_cone(x, s)) + x + s
            expected = jordan(x, x) + jordan(s, s)
            np.testing.assert_allclose(jordan(u, u), expected, rtol=0, atol=1e-14 * expected[0])


def jacobian(x, s, kappa=0.0):
    """(1 + k, 2 (1 + k)): derivative with respect to (x, s)."""
    return np.hstack(cone_slopes(x, s, kappa))


def exact_jacobian(x, s, kappa):
    """By 40-digit finite differences of sqrt(x o x + s o s + 2 kappa^2 e) - x - s with the spectral
    square root."""
    n = len(x)

    def phi(i):
        def component(*v):
            x, s = v[:n], v[n:]
            w0 = sum(t**2 for t in v) + 2 * mpmath.mpf(kappa) ** 2
            w1 = [2 * (x[0] * p + s[0] * q) for p, q in zip(x[1:], s[1:], strict=True)]
            length = mpmath.sqrt(sum(t**2 for t in w1))
            high, low = mpmath.sqrt(w0 + length), mpmath.sqrt(w0 - length)
            return ((high + low) / 2 if i == 0 else (high - low) / 2 * w1[i - 1] / length) - x[i] - s[i]

        return component

    with mpmath.workdps(40):
        at = tuple(mp(*x, *s))
        orders = np.eye(2 * n, dtype=int)
        return np.array([[float(mpmath.diff(phi(i), at, tuple(map(int, o)))) for o in orders] for i in range(n)])


@every_size
@pytest.mark.parametrize("kappa", [0.0, 0.05])
def test_cone_derivative_matches_finite_differences(k, kappa):
    rng = np.random.default_rng(4)
    pairs = [rng.normal(size=(2, 1 + k)) for _ in range(4)] + [complementary_pair(rng, k, "both on the boundary")]
    for x, s in pairs:
        # the largest slope is 1 / (smaller eigenvalue of u) times terms of size 3: 100 roundings of
        # it
        smaller = np.linalg.eigvalsh(arrow(np.asarray(fischer_burmeister_cone(x, s, kappa)) + x + s))[0]
        np.testing.assert_allclose(jacobian(x, s, kappa), exact_jacobian(x, s, kappa), rtol=0, atol=300 * EPS / smaller)


def arrow(v):
    """Matrix of the Jordan product with v; its extreme eigenvalues are v0 -+ |v1|."""
    matrix = v[0] * np.eye(len(v))
    matrix[0, 1:] = matrix[1:, 0] = v[1:]
    return matrix


@every_size
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0.0, 1e-15, 1e-12, 1e-8, 1e-4])
def test_cone_derivative_is_bounded_at_and_near_every_kink(kind, k, offset):
    """With u o u = x o x + s o s the derivative is (L_u^-1 L_x - I, L_u^-1 L_s - I), and L_u^2 >=
    L_x^2 + L_s^2 bounds the norm of (L_u^-1 L_x, L_u^-1 L_s) by 1; so it does for limits and their
    convex hull, Clarke's generalised derivative."""
    rng = np.random.default_rng(5)
    identity = np.hstack([np.eye(1 + k)] * 2)
    for _ in range(20):
        x, s = (v + offset * rng.normal(size=1 + k) for v in complementary_pair(rng, k, kind))
        J = jacobian(x, s)
        assert np.all(np.isfinite(J))
        # derivatives are taken at a smoothing of 1e-12, where a rounding of eps becomes eps / 1e-12
        assert np.linalg.norm(J + identity, 2) <= 1 + 10 * EPS / 1e-12


@every_size
@pytest.mark.parametrize("kind", KINKS)
def test_cone_function_is_strongly_semismooth_at_its_kinks(kind, k):
    """phi(v + d) - phi(v) - J(v + d) d = O(|d|^2), Sun and Sun (2005): what Newton's fast
    convergence rests on."""
    rng = np.random.default_rng(6)
    for _ in range(5):
        v = np.concatenate(complementary_pair(rng, k, kind))
        direction = rng.normal(size=v.size)
        errors = []
        for size in (1e-2, 1e-3, 1e-4):
            x, s = np.split(v + size * direction, 2)
            phi, phi_0 = fischer_burmeister_cone(x, s), fischer_burmeister_cone(*np.split(v, 2))
            errors.append(np.linalg.norm(phi - phi_0 - jacobian(x, s) @ (size * direction)))
        # order 2 within a factor 3, until round-off
        assert errors[2] <= errors[0] / 1e4 * 3 + 1e-12


# --- natural map of a disc -----------------------------------------------------------------------


@every_size
@pytest.mark.parametrize("radius", [0.0, 0.7])
def test_disc_maximisers_are_roots(k, radius):
    """y maximises -w.y over |y| <= radius: y = -radius w / |w|, and any y in the disc when w =
    0."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        w = rng.normal(size=k)
        np.testing.assert_allclose(natural_disc(-radius * w / np.linalg.norm(w), w, radius), 0.0, atol=4 * EPS)
        inside = radius * rng.uniform(0, 1) * w / np.linalg.norm(w)
        np.testing.assert_allclose(natural_disc(inside, 0 * w, radius), 0.0, atol=4 * EPS)


@every_size
def test_disc_value_measures_the_lack_of_dissipation(k):
    """With e the value and step r, y - e is in the disc and max over y' of w.(y - y') <= (2 radius
    / r + |w|) |e|, from the variational inequality of the projection. So e = 0 only where y is
    feasible and dissipates the most."""
    entries = st.lists(st.floats(-10, 10), min_size=k, max_size=k).map(np.array)

    @given(entries, entries, st.floats(0, 10))
    def check(y, w, radius):
        e = np.asarray(natural_disc(y, w, radius))
        round_off = 100 * EPS * (1 + radius + np.linalg.norm(y)) * (1 + np.linalg.norm(w)) / STEP
        assert np.linalg.norm(y - e) <= radius + round_off
        defect = w @ y + radius * np.linalg.norm(w)
        assert defect <= (2 * radius / STEP + np.linalg.norm(w)) * np.linalg.norm(e) + round_off

    check()


@every_size
def test_disc_projection_is_the_closest_point(k):
    rng = np.random.default_rng(8)
    for y in rng.normal(size=(20, k)):
        for radius in (0.0, 0.5, 2.0):
            length = np.linalg.norm(y)
            expected = y if length <= radius else radius / length * y
            np.testing.assert_allclose(project_to_disc(jnp.asarray(y), radius), expected, rtol=4 * EPS, atol=0)


@every_size
def test_disc_derivative_matches_finite_differences_away_from_the_circle(k):
    """Central differences of fourth order with width 1e-3: 1e-12 times a fifth derivative / 30, and
    eps / 1e-3."""
    rng = np.random.default_rng(9)
    width, radius = 1e-3, 0.8
    for _ in range(10):
        y, w = rng.normal(size=(2, k))
        if abs(np.linalg.norm(y - STEP * w) - radius) < 0.1 or np.linalg.norm(y - STEP * w) < 0.1:
            continue
        for which in (0, 1):
            for i in range(k):

                def value(t, which=which, i=i, y=y, w=w):
                    moved = [y.copy(), w.copy()]
                    moved[which][i] += t
                    return np.asarray(natural_disc(*moved, radius))

                slope = (8 * (value(width) - value(-width)) - (value(2 * width) - value(-2 * width))) / (12 * width)
                found = disc_slopes(y, w, radius)[which][:, i]
                np.testing.assert_allclose(found, slope, rtol=0, atol=1e-11)


@every_size
@pytest.mark.parametrize("radius", [0.0, 0.8])
def test_disc_derivative_is_finite_and_bounded_at_its_kinks(k, radius):
    """On the circle, and at y = w = 0, a projection's generalised derivative has a norm of at most
    1: I - P', r P'."""
    for y in (np.zeros(k), radius * np.eye(k)[0]):
        by_y, by_w = disc_slopes(y, np.zeros(k), radius)
        assert np.linalg.norm(np.eye(k) - by_y, 2) <= 1 + 4 * EPS
        assert np.linalg.norm(by_w, 2) <= STEP * (1 + 4 * EPS)
        np.testing.assert_allclose(by_w, STEP * (np.eye(k) - by_y), rtol=0, atol=4 * EPS)


def test_length_has_an_element_of_its_generalised_derivative_at_zero():
    assert length_of(jnp.array([3.0, 4.0])) == 5.0
    np.testing.assert_allclose(jax.grad(length_of)(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=2 * EPS)
    assert length_of(jnp.zeros(3)) == 0.0
    # the unit ball's centre
    np.testing.assert_array_equal(jax.grad(length_of)(jnp.zeros(3)), np.zeros(3))


def test_the_projection_of_nothing_has_derivatives_in_reverse():
    for y in (np.zeros(3), np.array([0.3, 0, 0])):
        np.testing.assert_array_equal(jax.jacrev(lambda y: project_to_disc(y, 1.0))(jnp.asarray(y)), np.eye(3))
