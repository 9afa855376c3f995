// Kernels that process a tensor row by row: reductions and softmax.
#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tiny {
namespace {

using at::Tensor;

// A contiguous tensor with the reduced dimensions last: rows of `length` elements.
struct ReducedRows {
  Tensor data;
  int64_t count;
  int64_t length;
};

ReducedRows reduced_rows_of(const Tensor& self, at::OptionalIntArrayRef wanted) {
  const auto rank = self.dim();
  std::vector<bool> reduced(rank, !wanted || wanted->empty());
  if (wanted && rank > 0) {
    for (const auto dim : *wanted) {
      reduced[dim < 0 ? dim + rank : dim] = true;
    }
  }
  std::vector<int64_t> order;
  int64_t length = 1;
  for (const bool last : {false, true}) {
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (reduced[dim] == last) {
        order.push_back(dim);
        length *= last ? self.size(dim) : 1;
      }
    }
  }
  const auto data = self.permute(order).contiguous();
  return {data, length == 0 ? 0 : self.numel() / length, length};
}

// Calls f(row, number) for each row. `row` points to the row's elements, which have type T.
template <typename T, typename F>
void for_each_row(const ReducedRows& rows, int64_t count, F f) {
  const T* first = to_host_address(static_cast<const T*>(rows.data.const_data_ptr()));
  for (int64_t row = 0; row < count; ++row) {
    f(first + row * rows.length, row);
  }
}

void check_and_resize_reduced_out(const Tensor& self,
                                  at::OptionalIntArrayRef dims,
                                  bool keep,
                                  const Tensor& out,
                                  std::optional<at::ScalarType> dtype) {
  const auto rank = self.dim();
  std::vector<bool> reduced(rank, !dims || dims->empty());
  if (dims) {
    for (const auto dim : *dims) {
      const auto place = c10::maybe_wrap_dim(dim, rank);
      TORCH_CHECK(rank == 0 || !reduced[place] || dims->empty(),
                  "dim ",
                  place,
                  " appears multiple times in the list of dims");
      if (rank > 0) {
        reduced[place] = true;
      }
    }
  }
  std::vector<int64_t> sizes;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!reduced[dim] || keep) {
      sizes.push_back(reduced[dim] ? 1 : self.size(dim));
    }
  }
  check_and_resize_out(out, sizes, self, dtype);
}

// Reduces each row to one number, computed in double or int64, and writes the numbers to `out` in row order.
template <typename F>
void reduce(const Tensor& self, at::OptionalIntArrayRef dims, const Tensor& out, const char* name, F f) {
  const auto rows = reduced_rows_of(self, dims);
  // Contiguous memory for the results, in row order. The results are copied to `out` at the end, because
  // `out` can have any strides.
  const auto flat = at::empty({out.numel()}, out.options());
  dispatch_dtype(self.scalar_type(), name, [&](auto type) {
    typedef decltype(type) T;
    char* to = to_host_address(static_cast<char*>(flat.mutable_data_ptr()));
    const auto bytes = flat.element_size();
    for_each_row<T>(rows, out.numel(), [&](const T* row, int64_t number) {
      store(to + number * bytes, flat.scalar_type(), f(row, rows.length));
    });
  });
  out.copy_(flat.view(out.sizes()));
}

Tensor& sum(const Tensor& self,
            at::OptionalIntArrayRef dims,
            bool keep,
            std::optional<at::ScalarType> dtype,
            Tensor& out) {
  check_and_resize_reduced_out(self, dims, keep, out, dtype);
  reduce(self.to(out.scalar_type()), dims, out, "sum", [](const auto* row, int64_t length) {
    WideType<std::decay_t<decltype(*row)>> total = 0;
    for (int64_t i = 0; i < length; ++i) {
      total += row[i];
    }
    return total;
  });
  return out;
}

Tensor& mean(const Tensor& self,
             at::OptionalIntArrayRef dims,
             bool keep,
             std::optional<at::ScalarType> dtype,
             Tensor& out) {
  check_and_resize_reduced_out(self, dims, keep, out, dtype);
  reduce(self.to(out.scalar_type()), dims, out, "mean", [](const auto* row, int64_t length) {
    double total = 0;
    for (int64_t i = 0; i < length; ++i) {
      total += static_cast<double>(row[i]);
    }
    return total / static_cast<double>(length);
  });
  return out;
}

// Returns the index of the best element of a row: `before(candidate, best)` is true if the candidate is
// better. The first NaN is better than all numbers.
template <typename T, typename F>
int64_t index_of_best(const T* row, int64_t length, F before) {
  int64_t best = 0;
  for (int64_t i = 1; i < length; ++i) {
    const bool nan = row[i] != row[i];
    if (row[best] == row[best] && (nan || before(row[i], row[best]))) {
      best = i;
    }
  }
  return best;
}

constexpr auto kLarger = [](auto x, auto y) { return x > y; };
constexpr auto kSmaller = [](auto x, auto y) { return x < y; };

template <typename F>
void reduce_to_best_value(
    const Tensor& self, at::OptionalIntArrayRef dims, const Tensor& out, const char* name, F before) {
  reduce(self, dims, out, name, [&](const auto* row, int64_t length) {
    return row[index_of_best(row, length, before)];
  });
}

template <bool Largest>
void max_or_min_over_dims(const Tensor& self, at::OptionalIntArrayRef dims, const Tensor& out) {
  if constexpr (Largest) {
    reduce_to_best_value(self, dims, out, "max", kLarger);
  } else {
    reduce_to_best_value(self, dims, out, "min", kSmaller);
  }
}

Tensor& amax(const Tensor& self, at::IntArrayRef dims, bool keep, Tensor& out) {
  check_and_resize_reduced_out(self, dims, keep, out, self.scalar_type());
  reduce_to_best_value(self, dims, out, "amax", kLarger);
  return out;
}

Tensor& amin(const Tensor& self, at::IntArrayRef dims, bool keep, Tensor& out) {
  check_and_resize_reduced_out(self, dims, keep, out, self.scalar_type());
  reduce_to_best_value(self, dims, out, "amin", kSmaller);
  return out;
}

Tensor maximum_of_all(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "max(): Expected reduction dim to be specified for input.numel() == 0.");
  const auto out = at::empty({}, self.options());
  reduce_to_best_value(self, std::nullopt, out, "max", kLarger);
  return out;
}

Tensor minimum_of_all(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "min(): Expected reduction dim to be specified for input.numel() == 0.");
  const auto out = at::empty({}, self.options());
  reduce_to_best_value(self, std::nullopt, out, "min", kSmaller);
  return out;
}

template <bool Largest>
int64_t index_of_extreme(const auto* row, int64_t length) {
  return Largest ? index_of_best(row, length, kLarger) : index_of_best(row, length, kSmaller);
}

template <bool Largest>
Tensor& argmax_or_argmin(const Tensor& self, std::optional<int64_t> dim, bool keep, Tensor& out) {
  const auto dims = dim ? at::OptionalIntArrayRef(*dim) : std::nullopt;
  check_and_resize_reduced_out(self, dims, keep, out, at::kLong);
  reduce(self, dims, out, Largest ? "argmax" : "argmin", [](const auto* row, int64_t length) {
    return index_of_extreme<Largest>(row, length);
  });
  return out;
}

template <bool Largest>
std::tuple<Tensor&, Tensor&> max_or_min_with_indices(
    const Tensor& self, int64_t dim, bool keep, Tensor& values, Tensor& places) {
  argmax_or_argmin<Largest>(self, dim, keep, places);
  check_and_resize_reduced_out(self, dim, keep, values, self.scalar_type());
  max_or_min_over_dims<Largest>(self, dim, values);
  return {values, places};
}

std::tuple<Tensor&, Tensor&> aminmax(
    const Tensor& self, std::optional<int64_t> dim, bool keep, Tensor& least, Tensor& most) {
  const auto dims = dim ? at::OptionalIntArrayRef(*dim) : std::nullopt;
  check_and_resize_reduced_out(self, dims, keep, least, self.scalar_type());
  check_and_resize_reduced_out(self, dims, keep, most, self.scalar_type());
  max_or_min_over_dims<false>(self, dims, least);
  max_or_min_over_dims<true>(self, dims, most);
  return {least, most};
}

template <bool Wanted>
Tensor& reduce_any_or_all(const Tensor& self, at::OptionalIntArrayRef dims, bool keep, Tensor& out) {
  check_and_resize_reduced_out(self, dims, keep, out, std::nullopt);
  reduce(self, dims, out, Wanted ? "any" : "all", [](const auto* row, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      if ((row[i] != 0) == Wanted) {
        return Wanted;
      }
    }
    return !Wanted;
  });
  return out;
}

template <bool Wanted>
Tensor& any_or_all_in_dim(const Tensor& self, int64_t dim, bool keep, Tensor& out) {
  return reduce_any_or_all<Wanted>(self, dim, keep, out);
}

template <bool Wanted>
Tensor& any_or_all_in_dims(const Tensor& self, at::OptionalIntArrayRef dims, bool keep, Tensor& out) {
  return reduce_any_or_all<Wanted>(self, dims, keep, out);
}

template <bool Wanted>
Tensor& any_or_all_elements(const Tensor& self, Tensor& out) {
  return reduce_any_or_all<Wanted>(self, std::nullopt, false, out);
}

// Calls f(in, in2, out, length) for each row of one or two tensors along a dimension.
template <typename F>
void apply_along_dimension(
    const Tensor& first, const Tensor& second, int64_t dim, const Tensor& out, const char* name, F f) {
  check_and_resize_out(out, first.sizes(), first, std::nullopt);
  if (out.numel() == 0) {
    return;
  }
  const int64_t last[] = {dim};
  const auto dims = at::OptionalIntArrayRef(at::IntArrayRef(last, first.dim() > 0 ? 1 : 0));
  const auto rows = reduced_rows_of(first.to(out.scalar_type()), dims);
  const auto others = reduced_rows_of(second.to(out.scalar_type()), dims);
  const auto made = at::empty(rows.data.sizes(), out.options());
  dispatch_dtype(out.scalar_type(), name, [&](auto type) {
    typedef decltype(type) T;
    T* to = to_host_address(static_cast<T*>(made.mutable_data_ptr()));
    const T* other = to_host_address(static_cast<const T*>(others.data.const_data_ptr()));
    for_each_row<T>(rows, rows.count, [&](const T* row, int64_t number) {
      f(row, other + number * rows.length, to + number * rows.length, rows.length);
    });
  });
  out.copy_(out.dim() > 0 ? made.movedim(-1, dim) : made);
}

template <bool Log>
Tensor& softmax(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  TORCH_CHECK(!half_to_float, "softmax: half_to_float is not supported on tiny");
  apply_along_dimension(self,
                        self,
                        dim,
                        out,
                        Log ? "log_softmax" : "softmax",
                        [](const auto* in, const auto*, auto* to, int64_t length) {
                          const double top = in[index_of_best(in, length, kLarger)];
                          double total = 0;
                          for (int64_t i = 0; i < length; ++i) {
                            total += std::exp(in[i] - top);
                          }
                          for (int64_t i = 0; i < length; ++i) {
                            const double value = in[i] - top;
                            to[i] = static_cast<std::decay_t<decltype(*to)>>(Log ? value - std::log(total)
                                                                                 : std::exp(value) / total);
                          }
                        });
  return out;
}

template <bool Log>
Tensor& softmax_backward(
    const Tensor& gradient, const Tensor& output, int64_t dim, at::ScalarType, Tensor& out) {
  apply_along_dimension(
      gradient,
      output,
      dim,
      out,
      Log ? "log_softmax_backward" : "softmax_backward",
      [](const auto* g, const auto* y, auto* to, int64_t length) {
        double total = 0;
        for (int64_t i = 0; i < length; ++i) {
          total += Log ? static_cast<double>(g[i]) : static_cast<double>(g[i]) * y[i];
        }
        for (int64_t i = 0; i < length; ++i) {
          to[i] = static_cast<std::decay_t<decltype(*to)>>(
              Log ? g[i] - std::exp(static_cast<double>(y[i])) * total : y[i] * (g[i] - total));
        }
      });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (development_stage() < 3) {
    return;
  }
  m.impl("sum.IntList_out", sum);
  if (development_stage() < 4) {
    return;
  }
  m.impl("mean.out", mean);
  m.impl("amax.out", amax);
  m.impl("amin.out", amin);
  m.impl("max", maximum_of_all);
  m.impl("min", minimum_of_all);
  m.impl("argmax.out", argmax_or_argmin<true>);
  m.impl("argmin.out", argmax_or_argmin<false>);
  m.impl("max.dim_max", max_or_min_with_indices<true>);
  m.impl("min.dim_min", max_or_min_with_indices<false>);
  m.impl("aminmax.out", aminmax);
  m.impl("any.out", any_or_all_in_dim<true>);
  m.impl("any.dims_out", any_or_all_in_dims<true>);
  m.impl("any.all_out", any_or_all_elements<true>);
  m.impl("all.out", any_or_all_in_dim<false>);
  m.impl("all.dims_out", any_or_all_in_dims<false>);
  m.impl("all.all_out", any_or_all_elements<false>);
  m.impl("_softmax.out", softmax<false>);
  m.impl("_log_softmax.out", softmax<true>);
  m.impl("_softmax_backward_data.out", softmax_backward<false>);
  m.impl("_log_softmax_backward_data.out", softmax_backward<true>);
}

}  // namespace
}  // namespace tiny
