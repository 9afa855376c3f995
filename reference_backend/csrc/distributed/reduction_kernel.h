// Reductions of the ranks' parts, element by element. The order is fixed, so that every rank that computes an
// element gets the same bits: ((rank 0 + rank 1) + rank 2) + …
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>

namespace hpu_reference::distributed {

// Reduces `count` elements of each part, in the order of the parts, into `to`, which may be one of the parts.
// 16-bit floats are accumulated in float32 and rounded once. Integers wrap. A NaN propagates through minimum
// and maximum. The dtype must be one that hccl reduces, other than bool.
void reduce_parts(char* to,
                  c10::ArrayRef<const char*> parts,
                  std::int64_t count,
                  c10::ScalarType dtype,
                  c10d::ReduceOp::RedOpType operation);

}  // namespace hpu_reference::distributed
