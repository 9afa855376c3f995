// The device's random number generator.
//
// The generator has the state of torch's CPU generator (Mersenne Twister), so saved states have the size that
// programs expect. At dispatch, each random operator draws one 64-bit seed from the generator. The operator
// then runs with a generator made from that seed, so its values do not depend on when or where it runs.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace hpu_reference::runtime {

// The torch.Generator of the device.
struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(std::uint64_t seed = c10::detail::getNonDeterministicRandom());
  // Returns the device type, HPU, for torch's checked casts.
  static c10::DeviceType device_type();

  // The Mersenne Twister has no offset. Reading the offset returns 0 and setting it to 0 is accepted, so that
  // generators can be pickled.
  std::uint64_t get_offset() const override;
  void set_offset(std::uint64_t offset) override;

 private:
  Generator* clone_impl() const override;
};

const at::Generator& default_generator();

// Draws the next seed from `generator`, or from the default generator if `generator` is empty. Throws if the
// generator is not of type hpu.
std::uint64_t draw_seed(const std::optional<at::Generator>& generator);

// Returns a CPU generator of this thread with the given seed. The generator is valid until the next call on
// this thread.
at::Generator seeded_cpu_generator(std::uint64_t seed);

}  // namespace hpu_reference::runtime
