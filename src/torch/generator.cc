#include "torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/ops/empty.h>

#include <mutex>
#include <vector>

#include "torch/state.h"

namespace spyre::torch {
namespace {

constexpr int state_bytes = 16;

class SpyreGenerator final : public c10::GeneratorImpl {
 public:
  explicit SpyreGenerator(c10::DeviceIndex index)
      : c10::GeneratorImpl(c10::Device(device_type, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == state_bytes, "a generator state of the spyre device has ", state_bytes, " bytes, not ",
                state.numel());
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    seed_ = read(bytes);
    offset_ = read(bytes + 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({state_bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    auto* bytes = state.mutable_data_ptr<uint8_t>();
    write(bytes, seed_);
    write(bytes + 8, offset_);
    return state.getIntrusivePtr();
  }

  /// Mixes seed and offset (SplitMix64's finaliser), so that neighbouring ops draw unrelated numbers.
  uint64_t next() {
    uint64_t x = seed_ + 0x9E3779B97F4A7C15ULL * ++offset_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

 private:
  // Little-endian on every host, so that a saved state means the same everywhere.
  static uint64_t read(const uint8_t* bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
    return value;
  }
  static void write(uint8_t* bytes, uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  }
  SpyreGenerator* clone_impl() const override {
    auto* copy = new SpyreGenerator(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<SpyreGenerator>(complete(c10::Device(device_type, index)).index());
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::mutex mutex;
  static auto* generators = new std::vector<at::Generator>();
  const auto at = static_cast<size_t>(complete(c10::Device(device_type, index)).index());
  const std::lock_guard<std::mutex> lock(mutex);
  if (generators->empty()) {  // all at once: references into the vector stay good
    for (int i = 0; i < runtime::device_count(); ++i)
      generators->push_back(at::make_generator<SpyreGenerator>(static_cast<c10::DeviceIndex>(i)));
  }
  return generators->at(at);
}

uint64_t next_op_seed(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == device_type, "expected a generator of the spyre device, not of ",
              generator.device());
  auto* own = static_cast<SpyreGenerator*>(generator.unsafeGetGeneratorImpl());
  const std::lock_guard<std::mutex> lock(own->mutex_);
  return own->next();
}

at::Generator cpu_generator_for_next_op(const at::Generator& generator) {
  return at::detail::createCPUGenerator(next_op_seed(generator));
}

}  // namespace spyre::torch
