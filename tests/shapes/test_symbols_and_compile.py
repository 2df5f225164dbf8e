"""Which expressions are legal, and whether what they compile to is f, its gradient and its Hessian.

Oracles: messages; 40-digit finite differences (mpmath); JAX's own derivatives of functions written
here without sympy.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import sympy

import shapes
from shapes import AbsPower, ImplicitShape, PositivePower, ShapeError, x, y, z
from shapes.expressions.compile import compile_jet
from shapes.expressions.symbols import Norm, Share, SignedPower, canonical

r, p = sympy.symbols("r p", positive=True)
# Values below are sums of a few dozen terms of size <= 10, second derivatives of size <= 100: 50
# roundings of 10 eps.
ROUND_OFF = 50 * 10 * np.finfo(float).eps


def ball(radius=1):
    return x**2 + y**2 + z**2 - radius**2


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("x**2 + y**2 + z**2 - 1", "is text: build it from shapes.x"),
        (ball() < 0, "is a relation: give f alone"),
        (sympy.Eq(x, 1), "is a relation: give f alone"),
        (1.5, "must be a sympy expression, not float"),
        (None, "must be a sympy expression, not NoneType"),
        (sympy.true, "must be a sympy expression"),
        (ball() - r, "uses r: use the symbols x, y, z imported from `shapes` and list every other symbol in `parameters`"),
        (sympy.Symbol("x") ** 2 + y**2 + z**2 - 1, "uses x: use the symbols x, y, z imported from `shapes`"),
        (sympy.Integer(-1), "does not depend on a coordinate: it bounds nothing"),
        (sympy.I * x + ball(), "is not real"),
        (sympy.Max(ball(), x), "has no gradient everywhere: max"),
        (ball() + sympy.sign(x), "has no gradient everywhere"),
        (sympy.nan, "does not depend on a coordinate: it bounds nothing"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_illegal_expression_is_refused_with_a_remedy(expression, says):
    with pytest.raises(ShapeError, match=says.replace("*", r"\*").replace("(", r"\(")):
        ImplicitShape([expression])


@pytest.mark.parametrize(
    ("arguments", "keywords", "says"),
    [
        ((ball(),), {}, "must be a list of sympy expressions: wrap a single one in"),
        (("x**2 - 1",), {}, "must be a list of sympy expressions"),
        (([],), {}, "`expressions` is empty"),
        (([ball()],), {"dimension": 4}, "`dimension` = 4 must be 2 or 3"),
        (([x**2 + y**2 - 1],), {"dimension": 2.0}, "`dimension` = 2.0 must be 2 or 3"),
        (([ball()],), {"parameters": [1.0]}, "must map symbols to values"),
        (([ball()],), {"dimension": 2}, "uses z: use the symbols x, y imported from `shapes`"),
        (([ball(r)],), {"parameters": {"r": 1.0}}, "`parameters` keys must be sympy symbols"),
        (([ball(r)],), {"parameters": {r: np.nan}}, "`r` = nan is not finite: it must be one finite number"),
        (([ball(r)],), {"parameters": {r: [1.0, 2.0]}}, "`r` has shape .* it must be one finite number"),
        (([ball(r)],), {"parameters": {r: np.float32(1)}}, "`r` is float32: give float64"),
        (([ball(r)],), {"parameters": {r: None}}, "`r` = None must be one finite number"),
        (([ball(r)],), {"parameters": {r: "1"}}, "`r` = '1' must be one finite number"),
        (([ball()],), {"parameters": {r: 1.0}}, "`parameters` names r, which no expression uses: leave it out"),
        (([ball()],), {"parameters": {x: 1.0}}, "`parameters` keys must be sympy symbols other than x, y and z"),
        ((None,), {}, "`expressions` = None must be a list"),
        (([AbsPower(x, r) + y**2 + z**2 - 1],), {"parameters": {r: 4.0}}, "variable exponent"),
        (([abs(x) ** r + y**2 + z**2 - 1],), {"parameters": {r: 4.0}}, "variable exponent"),
        (([AbsPower(x, y) + y**2 + z**2 - 1],), {}, r"`AbsPower\(x, y\)` has a variable exponent: .* may not appear"),
        (([PositivePower(x, r) - 1],), {"parameters": {r: 4.0}}, "variable exponent"),
        (([PositivePower(x, 1) - 1],), {}, "has exponent 1 and no gradient at zero: use an exponent above 1, or, .* list"),
        (([PositivePower(x, sympy.Rational(1, 2)) - 1],), {}, "has exponent 1/2 and no gradient at zero"),
    ],
)
def test_illegal_argument_is_refused_by_name(arguments, keywords, says):
    with pytest.raises(ShapeError, match=says):
        ImplicitShape(*arguments, **keywords)


def test_a_shape_error_is_a_value_error():
    assert issubclass(ShapeError, ValueError)


def test_even_exponents_become_plain_powers_and_odd_ones_do_not():
    assert AbsPower(x, 2) == x**2
    assert AbsPower(x, 8) == x**8
    assert AbsPower(x, 0) == 1
    assert SignedPower(x, 3) == x**3
    assert isinstance(AbsPower(x, 3), AbsPower)
    assert isinstance(AbsPower(x, -2), AbsPower)
    assert isinstance(SignedPower(x, 2), SignedPower)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (sympy.Abs(x) ** sympy.Rational(5, 2), AbsPower(x, sympy.Rational(5, 2))),
        (sympy.Abs(x - y), AbsPower(x - y, 1)),
        (sympy.sqrt(x**2), AbsPower(x, 1)),
        (sympy.Abs(x) ** 4, x**4),
        (
            sympy.Abs(sympy.Abs(x) ** sympy.Rational(5, 2) + y) ** sympy.Rational(7, 2),
            AbsPower(AbsPower(x, sympy.Rational(5, 2)) + y, sympy.Rational(7, 2)),
        ),
    ],
)
def test_absolute_values_become_abs_power(written, meant):
    assert canonical(written, 2, ()) == meant


@pytest.mark.parametrize(
    ("expression", "pieces"),
    [
        (sympy.Abs(x) + sympy.Abs(y) + sympy.Abs(z) - 1, 8),
        (r * sympy.Abs(x - y) + z**2 - 1, 2),
        (z - sympy.Abs(x), 1),
        ((sympy.Abs(x) + 1) ** 2 + z**2 - 3, 1),
    ],
)
def test_sums_of_absolute_values_are_split_into_faces(expression, pieces):
    """The largest of the pieces is the sum; a negative factor and a function of a sum are no faces
    of a convex body."""
    parameters = {r: 0.5} if expression.has(r) else {}
    shape = ImplicitShape([expression], parameters=parameters, validate=False)
    assert shape.shape_class.count == pieces
    whole = sympy.lambdify((x, y, z), expression.subs(parameters))
    for point in np.random.default_rng(0).normal(size=(20, 3)):
        np.testing.assert_allclose(np.max(shape.value(point)), whole(*point), rtol=0, atol=ROUND_OFF)


def test_odd_power_of_an_absolute_value_is_as_smooth_as_abs_power():
    """Sympy itself writes |x|^3 as x^2 |x|."""
    written, meant = (ImplicitShape([f + z**2 - 1], validate=False) for f in (sympy.Abs(x) ** 3, AbsPower(x, 3)))
    for u in (-1.3, 0.0, 0.4):
        point = [u, 0.0, 0.0]
        np.testing.assert_allclose(written.value(point), meant.value(point), rtol=0, atol=ROUND_OFF)
        np.testing.assert_allclose(written.gradient(point), meant.gradient(point), rtol=0, atol=ROUND_OFF)
        np.testing.assert_allclose(written.hessian(point), meant.hessian(point), rtol=0, atol=ROUND_OFF)


def exact(function, u, order):
    """Derivative of a function of one mpmath number, by finite differences of 40 digits, to double
    precision."""
    with mpmath.workdps(40):
        return float(mpmath.diff(function, mpmath.mpf(u), order))


@pytest.mark.parametrize("u", [-2.3, -0.1, 1e-3, 0.7, 1.9])
@pytest.mark.parametrize("exponent", [1, 1.1, 1.5, 2, 2.5, 3, 4, 7])
def test_derivatives_of_powers_match_finite_differences_away_from_zero(exponent, u):
    functions = {
        AbsPower: lambda t: abs(t) ** mpmath.mpf(exponent),
        SignedPower: lambda t: mpmath.sign(t) * abs(t) ** mpmath.mpf(exponent),
    }
    for power, function in functions.items():
        jet = compile_jet((power(x, sympy.nsimplify(exponent)) + y,), 2, ())
        point, theta = jnp.array([u, 0.0]), np.zeros(0)
        found = [jet.value(point, theta)[0], jet.gradient(point, theta)[0, 0], jet.hessian(point, theta)[0, 0, 0]]
        np.testing.assert_allclose(found, [exact(function, u, k) for k in range(3)], rtol=1e-14)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize(("exponent", "curvature"), [(2, 2.0), (3, 0.0), (2.5, 0.0), (4, 0.0), (1, 0.0)])
def test_powers_at_zero_are_exact(exponent, curvature, backend):
    jet = compile_jet((AbsPower(x, sympy.nsimplify(exponent)),), 2, (), backend=backend)
    origin, theta = np.zeros(2), np.zeros(0)
    assert jet.value(origin, theta) == 0.0
    assert not np.any(jet.gradient(origin, theta))
    np.testing.assert_array_equal(jet.hessian(origin, theta), [[[curvature, 0.0], [0.0, 0.0]]])


def test_power_below_two_has_an_exact_gradient_and_a_finite_hessian_at_zero():
    jet = compile_jet((AbsPower(x, sympy.Rational(3, 2)),), 2, ())
    origin, theta = jnp.zeros(2), np.zeros(0)
    assert jet.value(origin, theta) == 0.0
    assert not np.any(jet.gradient(origin, theta))
    assert np.all(np.isfinite(jet.hessian(origin, theta)))  # |x|^(3/2) itself has none there
    assert np.all(np.isfinite(jax.jacfwd(jet.gradient)(origin, theta)))


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("u", [-1e200, -2.3, -1e-3, 1e-3, 0.7, 1.9])
@pytest.mark.parametrize("exponent", [1.1, 1.5, 2, 2.5, 3, 4])
def test_positive_power_has_the_derivatives_of_its_two_branches(exponent, u, backend):
    jet = compile_jet((PositivePower(x, sympy.nsimplify(exponent)) + y,), 2, (), backend=backend)
    point, theta = np.array([u, 0.0]), np.zeros(0)
    found = [jet.value(point, theta)[0], jet.gradient(point, theta)[0, 0], jet.hessian(point, theta)[0, 0, 0]]
    p = mpmath.mpf(exponent)
    expected = [float(c * mpmath.mpf(u) ** (p - k)) if u > 0 else 0.0 for k, c in enumerate((1, p, p * (p - 1)))]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("exponent", [1.1, 1.5, 2, 3])
def test_positive_power_is_finite_and_flat_at_zero(exponent, backend):
    jet = compile_jet((PositivePower(x, sympy.nsimplify(exponent)),), 2, (), backend=backend)
    for u in (0.0, -0.0, 5e-324):
        point, theta = np.array([u, 0.0]), np.zeros(0)
        np.testing.assert_allclose(jet.value(point, theta), 0.0, atol=1e-300)
        np.testing.assert_allclose(jet.gradient(point, theta), 0.0, atol=1e-30)
        assert np.all(np.isfinite(jet.hessian(point, theta)))
    if backend == "jax":
        for derivative in (jet.value, jet.gradient, jet.hessian):
            assert np.all(np.isfinite(jax.jacfwd(derivative)(jnp.zeros(2), np.zeros(0))))


def test_derivatives_of_a_squared_positive_part_end_in_a_step():
    jet = compile_jet((PositivePower(x, 2),), 2, ())
    for u, curvature in ((-1.0, 0.0), (0.0, 0.0), (1e-300, 2.0), (1.0, 2.0)):
        point = jnp.array([u, 0.0])
        assert jet.hessian(point, np.zeros(0))[0, 0, 0] == curvature
        assert jax.jacfwd(jet.gradient)(point, np.zeros(0))[0, 0, 0] == curvature
        assert jax.jacfwd(jet.hessian)(point, np.zeros(0))[0, 0, 0, 0] == 0.0


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-60])
@pytest.mark.parametrize("exponent", [1.2, 2, 3, 7.5, 40])
def test_norm_keeps_its_derivatives_at_every_size(exponent, size, backend):
    """Against 300 digits: u^p underflows long before the norm does."""
    jet = compile_jet((Norm(x, y, sympy.nsimplify(exponent)),), 2, (), backend=backend)
    u, v = point = size * np.array([-0.9, 0.4])
    with mpmath.workdps(300):
        p, a, b = mpmath.mpf(exponent), abs(mpmath.mpf(u)), abs(mpmath.mpf(v))
        n = (a**p + b**p) ** (1 / p)
        slopes = [-((a / n) ** (p - 1)), (b / n) ** (p - 1)]
        curvature = (p - 1) * (a * b / n**2) ** (p - 2) / n**3
        hessian = [[curvature * b * b, curvature * a * b], [curvature * a * b, curvature * a * a]]
        expected = float(n), [float(s) for s in slopes], [[float(c) for c in row] for row in hessian]
    found = (function(point, np.zeros(0))[0] for function in (jet.value, jet.gradient, jet.hessian))
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("exponent", [1.2, 2, 3, 20])
def test_squared_norm_has_the_hessian_of_the_diagonal_at_zero(exponent, backend):
    jet = compile_jet((Norm(x, y, sympy.nsimplify(exponent)) ** 2,), 2, (), backend=backend)
    at_zero = jet.hessian(np.zeros(2), np.zeros(0))
    np.testing.assert_allclose(at_zero, jet.hessian(np.array([0.3, 0.3]), np.zeros(0)), rtol=1e-14)
    np.testing.assert_allclose(jet.gradient(np.zeros(2), np.zeros(0)), 0.0, atol=1e-100)
    np.testing.assert_allclose(jet.value(np.zeros(2), np.zeros(0)), 0.0, atol=1e-200)


@pytest.mark.parametrize("function", [Norm, Share])
def test_norm_and_share_have_the_same_derivatives_in_jax_and_in_sympy(function):
    jet = compile_jet((function(x - y, x * y, sympy.Rational(7, 2)),), 2, ())
    for point in np.random.default_rng(1).uniform(-1, 1, (4, 2)):
        for value, derivative in ((jet.value, jet.gradient), (jet.gradient, jet.hessian)):
            by_jax = jax.jacfwd(value)(jnp.asarray(point), np.zeros(0))
            np.testing.assert_allclose(derivative(point, np.zeros(0)), by_jax, rtol=1e-12)


def test_norm_refuses_a_variable_exponent():
    for function in (Norm, Share):
        with pytest.raises(ShapeError, match="variable exponent"):
            sympy.diff(function(x, y, p), p)


# name: inequalities, parameters, the same functions without sympy
WRITTEN_TWICE = {
    "ellipsoid": (
        [(x / p) ** 2 + y**2 / 4 + (r * z) ** 2 - 1],
        {p: 1.7, r: 0.6},
        lambda q, t: [(q[0] / t[0]) ** 2 + q[1] ** 2 / 4 + (t[1] * q[2]) ** 2 - 1],
    ),
    "odd powers": (
        [AbsPower(x / r, 3) + AbsPower(y, sympy.Rational(5, 2)) + AbsPower(z, 6) - 1],
        {r: 0.8},
        lambda q, t: [jnp.abs(q[0] / t[0]) ** 3 + jnp.abs(q[1]) ** 2.5 + q[2] ** 6 - 1],
    ),
    "nested powers": (
        [AbsPower(AbsPower(x, 3) + AbsPower(y, 3), sympy.Rational(4, 3)) + z**4 - 1],
        {},
        lambda q, t: [(jnp.abs(q[0]) ** 3 + jnp.abs(q[1]) ** 3) ** (4 / 3) + q[2] ** 4 - 1],
    ),
    "positive parts": (
        [x**2 + PositivePower(y - r, 2) + PositivePower(-z, sympy.Rational(5, 2)) - 1],
        {r: 0.3},
        lambda q, t: [q[0] ** 2 + jnp.maximum(q[1] - t[0], 0) ** 2 + jnp.maximum(-q[2], 0) ** 2.5 - 1],
    ),
    "norms": (
        [Norm(x / r, Norm(y, z, 3), sympy.Rational(5, 2)) - 1],
        {r: 0.8},
        lambda q, t: [(jnp.abs(q[0] / t[0]) ** 2.5 + (jnp.abs(q[1]) ** 3 + jnp.abs(q[2]) ** 3) ** (2.5 / 3)) ** 0.4 - 1],
    ),
    "transcendental": (
        [sympy.cosh(x) + sympy.exp(y) + sympy.sqrt(1 + z**2) - r, -z - r],
        {r: 4.0},
        lambda q, t: [jnp.cosh(q[0]) + jnp.exp(q[1]) + jnp.sqrt(1 + q[2] ** 2) - t[0], -q[2] - t[0]],
    ),
    "several planes": ([x + 2 * y - r, p * z - x, -y], {r: 1.0, p: 2.0}, lambda q, t: [
        q[0] + 2 * q[1] - t[0], t[1] * q[2] - q[0], -q[1]
    ]),
}  # fmt: skip


@pytest.fixture(params=WRITTEN_TWICE, name="twice")
def twice_fixture(request):
    """Compiled shape, the independent function (3,) -> (m,), and points with no coordinate near
    zero."""
    expressions, parameters, function = WRITTEN_TWICE[request.param]
    shape = ImplicitShape(expressions, parameters=parameters, validate=False)
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 1.5, (6, 3)) * rng.choice([-1, 1], (6, 3))
    return shape, lambda q: jnp.stack(function(q, np.array(list(parameters.values())))), points


def test_value_gradient_and_hessian_match_an_independent_function(twice):
    shape, function, points = twice
    for name, derivative in (("value", function), ("gradient", jax.jacrev(function)), ("hessian", jax.hessian(function))):
        found = getattr(shape.shape_class.jet, name)(points, shape.theta)
        np.testing.assert_allclose(found, jax.vmap(derivative)(points), rtol=0, atol=10 * ROUND_OFF)


def test_derivatives_of_the_compiled_functions_are_the_compiled_derivatives(twice):
    shape, _, points = twice
    jet = shape.shape_class.jet
    for function, derivative in ((shape.value, jet.gradient), (shape.gradient, jet.hessian)):
        expected = jax.vmap(jax.jacfwd(function))(points)
        np.testing.assert_allclose(derivative(points, shape.theta), expected, rtol=0, atol=10 * ROUND_OFF)


def test_backends_agree_and_take_batches(twice):
    shape, _, points = twice
    kind = shape.shape_class
    jets = [compile_jet(kind.expressions, 3, kind.parameters, backend=backend) for backend in ("jax", "numpy")]
    for name, trailing in (("value", ()), ("gradient", (3,)), ("hessian", (3, 3))):
        by_jax, by_numpy = (getattr(jet, name)(points, shape.theta) for jet in jets)
        assert by_jax.shape == by_numpy.shape == (6, kind.count, *trailing)
        np.testing.assert_allclose(by_jax, by_numpy, rtol=0, atol=10 * ROUND_OFF)


def test_equal_expressions_are_compiled_once():
    small, large = shapes.Sphere(1.0), shapes.Sphere(2.0)
    assert small.shape_class == large.shape_class
    assert hash(small.shape_class) == hash(large.shape_class)
    assert small.shape_class.jet is large.shape_class.jet
    assert small.shape_class.jet is not shapes.Ellipsoid((1.0, 1.0, 1.0)).shape_class.jet


def test_parameters_keep_their_names_and_order():
    shape = ImplicitShape([(x / p) ** 2 + (y / r) ** 2 + z**2 - 1], parameters={r: 2.0, p: 3.0})
    assert shape.parameters() == {"r": 2.0, "p": 3.0}
    np.testing.assert_array_equal(shape.value([3.0, 0.0, 0.0]), [0.0])
    np.testing.assert_array_equal(shape.value([0.0, 2.0, 0.0]), [0.0])
