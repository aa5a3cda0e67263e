#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/trace_writer.h"
#include "timing/kernel_walk.h"
#include "timing/timeline.h"

namespace spyre::timing {
namespace {

using program::Direction;
using program::none;

/// What a call's time depends on beside its kernel.
struct CallKey {
  program::Id kernel = none;
  std::vector<int64_t> scalars;
  std::vector<char> reused;
  auto operator<=>(const CallKey&) const = default;
};

std::vector<int64_t> kernel_scalars(const program::Program& program, const program::Call& call,
                                    const ScalarValues& values) {
  const program::Kernel& kernel = program.kernels.at(call.kernel);
  if (call.scalars.size() != kernel.scalars.size()) {
    fail(Fault::program, "call of {}: {} scalars for {} parameters", kernel.name, call.scalars.size(),
         kernel.scalars.size());
  }
  std::vector<int64_t> out;
  for (size_t i = 0; i < kernel.scalars.size(); ++i) {
    // An f32 scalar is a value, never a size.
    out.push_back(kernel.scalars[i].is_float ? 0 : static_cast<int64_t>(std::llround(values.at(call.scalars[i]))));
  }
  return out;
}

}  // namespace

Timeline walk(const program::Program& program, const ScalarValues& scalars, const device::Description& description,
              const WalkOptions& options) {
  if (scalars.size() != program.scalars.size()) {
    fail(Fault::program, "timing: {} scalar values for a program with {} scalars", scalars.size(),
         program.scalars.size());
  }
  Timeline timeline;
  std::map<CallKey, KernelTime> known;
  std::vector<char> written = options.written;
  written.resize(program.symbols.size());
  timeline.calls.reserve(program.calls.size());
  if (options.trace) options.trace->name_process(1, "calls");
  for (const program::Call& call : program.calls) {
    const program::Kernel& kernel = program.kernels.at(call.kernel);
    CallKey key{call.kernel, kernel_scalars(program, call, scalars), {}};
    for (size_t f = 0; f < call.symbols.size(); ++f) {
      key.reused.push_back(kernel.formals[f].direction != Direction::out && written.at(call.symbols[f]));
    }
    auto at = known.find(key);
    if (at == known.end() || options.trace) {
      const KernelModel model(kernel, key.scalars, description);
      KernelWalkOptions o;
      o.jump = options.jump;
      o.reused = key.reused;
      o.trace = options.trace;
      o.program = &program;
      o.trace_start_ps = options.trace_start_ps + timeline.total_ps;
      KernelTime time = walk_kernel(model, o);
      time.kernel = call.kernel;
      at = known.insert_or_assign(std::move(key), time).first;
    }
    KernelTime time = at->second;
    time.start_ps = timeline.total_ps;
    if (options.trace) {
      options.trace->complete(
          1, 0, kernel.name, "call", options.trace_start_ps + time.start_ps, time.duration_ps,
          {{"bytes_read", time.bytes_read}, {"bytes_written", time.bytes_written}, {"macs", time.macs}});
    }
    timeline.total_ps = plus(timeline.total_ps, time.duration_ps);
    timeline.calls.push_back(time);
    for (size_t f = 0; f < call.symbols.size(); ++f) {
      if (kernel.formals[f].direction != Direction::in) written[call.symbols[f]] = 1;
    }
  }
  return timeline;
}

}  // namespace spyre::timing
