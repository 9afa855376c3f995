// The device's random number generator.
//
// Its state is the CPU generator's (Mersenne Twister), so that saved states have the size clients expect.
// Each random operator draws one 64-bit seed from it when it is dispatched and runs with a generator made
// from that seed: values do not depend on when or where the operator runs.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace hpu_reference::runtime {

// torch.Generator of the device.
struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(std::uint64_t seed = c10::detail::getNonDeterministicRandom());
  // The device type, HPU, for torch's checked casts.
  static c10::DeviceType device_type();

  // The twister has no offset: reading gives 0 and setting 0 is accepted, so that generators can be pickled.
  std::uint64_t get_offset() const override;
  void set_offset(std::uint64_t offset) override;

 private:
  Generator* clone_impl() const override;
};

// The device's default generator.
const at::Generator& default_generator();

// Draws the next seed of `generator`, or of the default one if it is empty. Throws if it is not of type hpu.
std::uint64_t draw_seed(const std::optional<at::Generator>& generator);

// A CPU generator of this thread with that seed. Valid until the next call on this thread.
at::Generator seeded_cpu_generator(std::uint64_t seed);

}  // namespace hpu_reference::runtime
