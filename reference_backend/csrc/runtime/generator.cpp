#include "runtime/generator.h"

#include <c10/core/ScalarType.h>

#include "device_key.h"
#include "runtime/device.h"
#include "runtime/host_access.h"

namespace hpu_reference::runtime {

namespace {

// Returns the next number of the generator SplitMix64, which expands one drawn number to the whole state of a
// Mersenne Twister.
std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Generator::Generator(std::uint64_t seed) : at::CPUGeneratorImpl(seed) {
  device_ = c10::Device(c10::DeviceType::DEVICE_KEY, 0);
  key_set_ = c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY);
}

c10::DeviceType Generator::device_type() {
  return c10::DeviceType::DEVICE_KEY;
}

std::uint64_t Generator::get_offset() const {
  return 0;
}

void Generator::set_offset(std::uint64_t offset) {
  TORCH_CHECK(offset == 0,
              "a generator of " DEVICE_NAME " has no offset, but ",
              offset,
              " was given; set its state instead");
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(0);
  copy->set_state(*get_state());
  return copy;
}

const at::Generator& default_generator() {
  static const auto* generator = new at::Generator(at::make_generator<Generator>(c10::default_rng_seed_val));
  return *generator;
}

std::uint64_t draw_seed(const std::optional<at::Generator>& generator) {
  at::Generator source = generator.has_value() && generator->defined() ? *generator : default_generator();
  TORCH_CHECK(source.device().type() == c10::DeviceType::DEVICE_KEY ||
                  (source.device().is_cpu() && accepts_host_arguments()),
              "Expected a '" DEVICE_NAME "' device type for generator but found '",
              source.device().type(),
              "'; make it with torch.Generator(device='" DEVICE_NAME "')");
  std::lock_guard<std::mutex> lock(source.mutex());
  return source.get<at::CPUGeneratorImpl>()->random64();
}

at::Generator seeded_cpu_generator(std::uint64_t draw) {
  thread_local at::Generator local = at::detail::createCPUGenerator();
  at::mt19937_data_pod data{};
  data.seed_ = draw;
  data.seeded_ = true;
  data.left_ = 1;
  data.next_ = 0;
  for (auto& state_word : data.state_) {
    state_word = static_cast<std::uint32_t>(split_mix(draw) >> 32);
  }
  at::mt19937 engine;
  engine.set_data(data);
  auto* cpu = local.get<at::CPUGeneratorImpl>();
  cpu->set_engine(engine);
  cpu->set_next_float_normal_sample(std::nullopt);
  cpu->set_next_double_normal_sample(std::nullopt);
  return local;
}

}  // namespace hpu_reference::runtime
