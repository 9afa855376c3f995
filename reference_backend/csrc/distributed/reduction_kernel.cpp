#include "distributed/reduction_kernel.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace hpu_reference::distributed {

namespace {

// Bytes that are reduced at a time: they stay in the L1 cache.
constexpr std::int64_t kBlockBytes = 4096;

template <class T>
constexpr bool is_half = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;
template <class T>
using Wide = std::conditional_t<is_half<T>, float, T>;

// Signed integers wrap like unsigned integers.
struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
    } else {
      return a * b;
    }
  }
};

struct Minimum {
  template <class T>
  static T of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Maximum {
  template <class T>
  static T of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

// Calls the function for each index below `count`. The usual count is the constant `block`, because the
// compiler vectorizes loops with a constant count.
template <std::int64_t block, class Function>
void for_each_index(std::int64_t count, Function function) {
  if (count == block) {
    for (std::int64_t index = 0; index < block; index++) {
      function(index);
    }
  } else {
    for (std::int64_t index = 0; index < count; index++) {
      function(index);
    }
  }
}

template <class T, class Operation>
void reduce_as(char* to, c10::ArrayRef<const char*> parts, std::int64_t count) {
  constexpr std::int64_t kBlock = kBlockBytes / static_cast<std::int64_t>(sizeof(Wide<T>));
  alignas(64) Wide<T> sum[kBlock];
  auto* out = reinterpret_cast<T*>(to);
  for (std::int64_t start = 0; start < count; start += kBlock) {
    const std::int64_t length = std::min(kBlock, count - start);
    const auto part = [&](std::size_t rank) { return reinterpret_cast<const T*>(parts[rank]) + start; };
    const T* first = part(0);
    if (parts.size() == 1) {
      for_each_index<kBlock>(length, [&](std::int64_t i) { sum[i] = static_cast<Wide<T>>(first[i]); });
    } else {
      const T* second = part(1);
      for_each_index<kBlock>(length, [&](std::int64_t i) {
        sum[i] = Operation::of(static_cast<Wide<T>>(first[i]), static_cast<Wide<T>>(second[i]));
      });
    }
    for (std::size_t rank = 2; rank < parts.size(); rank++) {
      const T* next = part(rank);
      for_each_index<kBlock>(
          length, [&](std::int64_t i) { sum[i] = Operation::of(sum[i], static_cast<Wide<T>>(next[i])); });
    }
    if constexpr (is_half<T>) {
      for_each_index<kBlock>(length, [&](std::int64_t i) { out[start + i] = static_cast<T>(sum[i]); });
    } else {
      std::memcpy(out + start, sum, static_cast<std::size_t>(length) * sizeof(T));
    }
  }
}

template <class T>
void reduce_with(char* to,
                 c10::ArrayRef<const char*> parts,
                 std::int64_t count,
                 c10d::ReduceOp::RedOpType operation) {
  switch (operation) {
    case c10d::ReduceOp::SUM:
      return reduce_as<T, Sum>(to, parts, count);
    case c10d::ReduceOp::PRODUCT:
      return reduce_as<T, Product>(to, parts, count);
    case c10d::ReduceOp::MIN:
      return reduce_as<T, Minimum>(to, parts, count);
    case c10d::ReduceOp::MAX:
      return reduce_as<T, Maximum>(to, parts, count);
    default:
      TORCH_INTERNAL_ASSERT(false, "no such reduction in shared memory");
  }
}

}  // namespace

void reduce_parts(char* to,
                  c10::ArrayRef<const char*> parts,
                  std::int64_t count,
                  c10::ScalarType dtype,
                  c10d::ReduceOp::RedOpType operation) {
  switch (dtype) {
    case c10::ScalarType::Byte:
      return reduce_with<std::uint8_t>(to, parts, count, operation);
    case c10::ScalarType::Char:
      return reduce_with<std::int8_t>(to, parts, count, operation);
    case c10::ScalarType::Int:
      return reduce_with<std::int32_t>(to, parts, count, operation);
    case c10::ScalarType::Long:
      return reduce_with<std::int64_t>(to, parts, count, operation);
    case c10::ScalarType::Half:
      return reduce_with<c10::Half>(to, parts, count, operation);
    case c10::ScalarType::BFloat16:
      return reduce_with<c10::BFloat16>(to, parts, count, operation);
    case c10::ScalarType::Float:
      return reduce_with<float>(to, parts, count, operation);
    case c10::ScalarType::Double:
      return reduce_with<double>(to, parts, count, operation);
    default:
      TORCH_INTERNAL_ASSERT(false, "no reduction of ", dtype, " in shared memory");
  }
}

}  // namespace hpu_reference::distributed
