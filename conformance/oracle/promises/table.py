"""The promise of each operator."""

from __future__ import annotations

from conformance.oracle.promises import conversions, counts, factorisations, orders, rounding
from conformance.oracle.promises.claims import Promise

PROMISES: dict[str, Promise] = {
    "sort": orders.sort,
    "argsort": orders.argsort,
    "topk": orders.topk,
    "kthvalue": orders.one_per_row(1),
    "mode": orders.mode,
    "median": orders.one_per_row(0),
    "nanmedian": orders.one_per_row(0),
    "cummax": orders.scan,
    "cummin": orders.scan,
    "unique": orders.unique,
    "nn.functional.max_pool1d": orders.pool(1),
    "nn.functional.max_pool2d": orders.pool(2),
    "nn.functional.max_pool3d": orders.pool(3),
    "nn.functional.adaptive_max_pool1d": orders.pool(1),
    "nn.functional.adaptive_max_pool2d": orders.pool(2),
    "nn.functional.adaptive_max_pool3d": orders.pool(3),
    "svd": factorisations.svd,
    "linalg.svd": factorisations.svd,
    "linalg.eigh": factorisations.eigh,
    "linalg.eig": factorisations.eig,
    "linalg.eigvals": factorisations.eigvals,
    "svd_lowrank": factorisations.svd_lowrank,
    "pca_lowrank": factorisations.pca_lowrank,
    "qr": factorisations.qr,
    "linalg.qr": factorisations.qr,
    "geqrf": factorisations.geqrf,
    "linalg.lu": factorisations.lu,
    "linalg.lu_factor": factorisations.lu_factor,
    "linalg.lu_factor_ex": factorisations.lu_factor,
    "lu": factorisations.lu_factor,
    "byte": conversions.to_integer,
    "char": conversions.to_integer,
    "short": conversions.to_integer,
    "int": conversions.to_integer,
    "long": conversions.to_integer,
    "histc": counts.histc,
    "round.decimals_3": rounding.decimals,
    "round.decimals_neg_3": rounding.decimals,
}


def promise_of(operator: str) -> Promise | None:
    """Return the promise that replaces a comparison of values, or None if all values are fixed."""
    return PROMISES.get(operator)
