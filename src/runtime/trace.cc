#include "runtime/trace.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/trace_writer.h"
#include "runtime/devices.h"

namespace spyre::runtime {
namespace {

struct Recorder {
  std::mutex mutex;  // all below
  std::unique_ptr<base::TraceWriter> writer;
  std::set<int> devices;
  std::set<std::pair<int, int64_t>> streams;

  static Recorder& shared() {
    static Recorder* const made = new Recorder;
    return *made;
  }
};
std::atomic<bool> on{false};

const char* word(WorkKind kind) {
  switch (kind) {
    case WorkKind::kernel:
      return "kernel";
    case WorkKind::copy:
      return "copy";
    case WorkKind::other:
      return "other";
  }
  return "other";
}

}  // namespace

void start_trace(const std::string& path) {
  Recorder& recorder = Recorder::shared();
  std::lock_guard lock(recorder.mutex);
  if (recorder.writer) fail(Fault::user, "a trace is on already: stop it before starting one in {}", path);
  recorder.writer = std::make_unique<base::TraceWriter>(path);
  recorder.devices.clear();
  recorder.streams.clear();
  on.store(true, std::memory_order_release);
}

void stop_trace() {
  Recorder& recorder = Recorder::shared();
  std::lock_guard lock(recorder.mutex);
  if (!recorder.writer) fail(Fault::user, "no trace is on");
  on.store(false, std::memory_order_release);
  const std::unique_ptr<base::TraceWriter> writer = std::move(recorder.writer);
  writer->close();
}

bool tracing() noexcept { return on.load(std::memory_order_relaxed); }

void trace_span(const Stream& stream, const std::string& name, WorkKind kind, int64_t start_ps, int64_t duration_ps,
                int64_t bytes) {
  Recorder& recorder = Recorder::shared();
  std::lock_guard lock(recorder.mutex);
  if (!recorder.writer) return;
  const int device = stream.device().index();
  const int track = static_cast<int>(stream.id());
  if (recorder.devices.insert(device).second) recorder.writer->name_process(device, fmt::format("spyre:{}", device));
  if (recorder.streams.insert({device, stream.id()}).second)
    recorder.writer->name_thread(device, track,
                                 stream.id() == 0 ? "default stream" : fmt::format("stream {}", stream.id()), track);
  if (bytes > 0)
    recorder.writer->complete(device, track, name, word(kind), start_ps, duration_ps, {{"bytes", bytes}});
  else
    recorder.writer->complete(device, track, name, word(kind), start_ps, duration_ps);
}

}  // namespace spyre::runtime
