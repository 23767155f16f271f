"""The distributions that intervals over few seeds need and numpy lacks: Student's t, central and not, beta and chi.

A continued fraction for the incomplete beta function, Gauss-Legendre quadrature over the chi density for the noncentral
t, and bisection for quantiles.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

NODES = 200
"""Nodes of the quadrature; with 100 the powers in the tests agree to twelve digits already."""
TINY = 1e-300


def beta_cdf(a: float, b: float, x: float) -> float:
    """P(B <= x) of a beta variable with shapes a, b > 0: the regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # the fraction converges fast on one side of the mean; the other follows by symmetry
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _off_zero(1 + term * d), _off_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


def beta_quantile(a: float, b: float, p: float) -> float:
    """The x with P(B <= x) = p; shape a = 0 is the point 0, b = 0 the point 1."""
    if a <= 0 or b <= 0:
        return float(b <= 0)
    return bisected(lambda x: beta_cdf(a, b, x) - p, 0.0, 1.0)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, p in (0, 1); df need not be whole (Welch's is not)."""
    if p == 0.5:
        return 0.0
    tail = 2 * min(p, 1 - p)  # P(|T| > t), a beta's: no digits are lost far out
    x = beta_quantile(df / 2, 0.5, tail)
    return math.copysign(math.sqrt(df * (1 - x) / x), p - 0.5)


def noncentral_t_cdf(t: float, df: float, shift: float) -> float:
    """P((Z + shift) / S <= t), Z standard normal and S = sqrt(chi²(df) / df) independent of it."""
    s, weights = _chi_grid(df)
    return float(weights @ [math.erfc((shift - t * x) / math.sqrt(2)) / 2 for x in s])


def chi_cdf(s: float, df: float) -> float:
    """P(S <= s) of S = sqrt(chi²(df) / df): a sample standard deviation over the true one."""
    nodes, weights = _legendre()
    x = s * (nodes + 1) / 2
    return float(weights @ _chi_density(x, df)) * s / 2


@lru_cache(maxsize=4096)
def chi_quantile(p: float, df: float) -> float:
    """The s with P(S <= s) = p."""
    return bisected(lambda s: chi_cdf(s, df) - p, 0.0, _chi_end(df))


@lru_cache(maxsize=1)  # milliseconds, and a quantile asks some fifty times
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of the quadrature over [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


@lru_cache(maxsize=256)
def _chi_grid(df: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of an integral over the density of S."""
    nodes, weights = _legendre()
    low, high = max(0.0, 2 - _chi_end(df)), _chi_end(df)
    s = low + (high - low) * (nodes + 1) / 2
    return s, weights * _chi_density(s, df) * (high - low) / 2


def _chi_end(df: float) -> float:
    """An upper end of S: nine of its standard deviations above 1."""
    return 1 + 9 / math.sqrt(2 * df)


def _chi_density(s: NDArray[np.float64], df: float) -> NDArray[np.float64]:
    front = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    return np.exp(front + (df - 1) * np.log(s) - df * s**2 / 2)


def bisected(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero between low and high of a function that rises through it."""
    for _ in range(2000):  # to the last bit, which near 0 is a thousand halvings away
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
