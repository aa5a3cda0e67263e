// The figures of the process that statistics() shows, as far as no living instance keeps them.
#pragma once

#include <atomic>
#include <cstdint>

namespace spyre::engine {

struct Counters {
  std::atomic<int64_t> instances{0}, disk_hits{0}, rebuilt{0}, launches{0}, modelled_ps{0}, repacks{0};
};
Counters& counters();

}  // namespace spyre::engine
