"""Tables that map operators and overloads to their relations."""

from __future__ import annotations

from conformance.oracle.relations import (
    factorisations,
    histogram_counts,
    indices,
    integer_conversion,
    rounding,
)
from conformance.oracle.relations.relation import Relation

RELATIONS: dict[str, Relation] = {
    "sort": indices.sort,
    "argsort": indices.argsort,
    "topk": indices.topk,
    "kthvalue": indices.relation_with_any_index_of_value(1),
    "mode": indices.mode,
    "median": indices.relation_with_any_index_of_value(0),
    "nanmedian": indices.relation_with_any_index_of_value(0),
    "cummax": indices.cummax_cummin_equations,
    "cummin": indices.cummax_cummin_equations,
    "unique": indices.unique,
    "nn.functional.max_pool1d": indices.max_pool(1),
    "nn.functional.max_pool2d": indices.max_pool(2),
    "nn.functional.max_pool3d": indices.max_pool(3),
    "nn.functional.adaptive_max_pool1d": indices.max_pool(1),
    "nn.functional.adaptive_max_pool2d": indices.max_pool(2),
    "nn.functional.adaptive_max_pool3d": indices.max_pool(3),
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
    "byte": integer_conversion.integer_conversion_equations,
    "char": integer_conversion.integer_conversion_equations,
    "short": integer_conversion.integer_conversion_equations,
    "int": integer_conversion.integer_conversion_equations,
    "long": integer_conversion.integer_conversion_equations,
    "histc": histogram_counts.histc,
    "round.decimals_3": rounding.rounded_decimals_equations,
    "round.decimals_neg_3": rounding.rounded_decimals_equations,
}

#: The relations of overloads, by base name. The values of other overloads are compared directly.
OVERLOAD_RELATIONS: dict[str, Relation] = {
    "mode": indices.mode,
    "_linalg_svd": factorisations.svd_with_adjoint,
    "_linalg_eigh": factorisations.eigh,
    "linalg_eig": factorisations.eig,
    "_linalg_eigvals": factorisations.eigvals,
    "linalg_eigvals": factorisations.eigvals,
    "linalg_qr": factorisations.qr,
    "geqrf": factorisations.geqrf,
    "linalg_ldl_factor_ex": factorisations.ldl_factor,
}
