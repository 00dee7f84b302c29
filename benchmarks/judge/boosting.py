"""Gradient-boosted trees for two classes, with monotone features: small, exact, deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Settings:
    trees: int = 120
    depth: int = 3
    rate: float = 0.12
    least: float = 8.0  # of a leaf's hessian
    ridge: float = 2.0
    bins: int = 24


def thresholds(column: Any, bins: int) -> Any:
    """The values between which a feature may be split."""
    values = np.unique(column)
    if len(values) > bins:
        values = np.unique(np.quantile(column, np.linspace(0, 1, bins + 1), method="nearest"))
    return np.round((values[:-1] + values[1:]) / 2, 4)


def train(
    rows: Any, targets: Any, weights: Any, signs: list[int], settings: Settings
) -> tuple[float, list[Any]]:
    """Return the start and the trees; a tree is [feature, threshold, low, high] or a number.

    A feature's sign says whether the result may only rise (1) or only fall (-1) with it.
    """
    cuts = [thresholds(rows[:, j], settings.bins) for j in range(rows.shape[1])]
    binned = np.stack([np.searchsorted(c, rows[:, j], side="left") for j, c in enumerate(cuts)], 1)
    mean = float((weights * targets).sum() / weights.sum())
    start = float(np.log(mean / (1 - mean)))
    score = np.full(len(rows), start)
    trees = []
    for _ in range(settings.trees):
        p = 1 / (1 + np.exp(-score))
        gradient, hessian = weights * (targets - p), weights * p * (1 - p)
        tree, values = _grow(
            np.arange(len(rows)), binned, cuts, gradient, hessian, signs, settings, 0,
            (-np.inf, np.inf),
        )  # fmt: skip
        trees.append(tree)
        score = score + values
    return start, trees


def _leaf(g: float, h: float, settings: Settings, bounds: tuple[float, float]) -> float:
    return float(np.clip(g / (h + settings.ridge), *bounds))


def _gain(g: Any, h: Any, settings: Settings) -> Any:
    return g * g / (h + settings.ridge)


def _grow(
    index: Any, binned: Any, cuts: list[Any], gradient: Any, hessian: Any, signs: list[int],
    settings: Settings, depth: int, bounds: tuple[float, float],
) -> tuple[Any, Any]:  # fmt: skip
    g, h = gradient[index], hessian[index]
    total_g, total_h = g.sum(), h.sum()
    values = np.zeros(len(gradient))
    best: tuple[float, int, int] | None = None
    if depth < settings.depth:
        for j, sign in enumerate(signs):
            if not len(cuts[j]):
                continue
            gs = np.cumsum(np.bincount(binned[index, j], g, len(cuts[j]) + 1))[:-1]
            hs = np.cumsum(np.bincount(binned[index, j], h, len(cuts[j]) + 1))[:-1]
            fit = (hs >= settings.least) & (total_h - hs >= settings.least)
            low, high = gs / (hs + settings.ridge), (total_g - gs) / (total_h - hs + settings.ridge)
            low, high = np.clip(low, *bounds), np.clip(high, *bounds)
            if sign:
                fit &= (high - low) * sign >= 0
            gain = np.where(
                fit, _gain(gs, hs, settings) + _gain(total_g - gs, total_h - hs, settings), -1.0
            )
            at = int(np.argmax(gain))
            if gain[at] > 0 and (best is None or gain[at] > best[0] + 1e-9):
                best = (float(gain[at]), j, at)
    if best is None or best[0] < _gain(total_g, total_h, settings) + 1e-3:
        leaf = _leaf(total_g, total_h, settings, bounds) * settings.rate
        values[index] = leaf
        return round(leaf, 4), values
    _, j, at = best
    left = binned[index, j] <= at
    ones, others = index[left], index[~left]
    low = _leaf(gradient[ones].sum(), hessian[ones].sum(), settings, bounds)
    high = _leaf(gradient[others].sum(), hessian[others].sum(), settings, bounds)
    middle = (low + high) / 2
    below: tuple[Any, Any] = bounds
    above: tuple[Any, Any] = bounds
    if signs[j] > 0:
        below, above = (bounds[0], middle), (middle, bounds[1])
    elif signs[j] < 0:
        below, above = (middle, bounds[1]), (bounds[0], middle)
    first, ours = _grow(ones, binned, cuts, gradient, hessian, signs, settings, depth + 1, below)
    second, theirs = _grow(
        others, binned, cuts, gradient, hessian, signs, settings, depth + 1, above
    )
    return [j, float(cuts[j][at]), first, second], ours + theirs


def predict(start: float, trees: list[Any], rows: Any) -> Any:
    """The probability of each row."""
    score: Any = np.full(len(rows), start)
    for tree in trees:
        score += _value(tree, rows, np.arange(len(rows)))
    return 1 / (1 + np.exp(-score))


def _value(tree: Any, rows: Any, index: Any) -> Any:
    values = np.zeros(len(index))
    if not isinstance(tree, list):
        return values + tree
    low = rows[index, tree[0]] <= tree[1]
    values[low] = _value(tree[2], rows, index[low])
    values[~low] = _value(tree[3], rows, index[~low])
    return values
