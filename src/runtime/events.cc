#include "base/env.h"
#include "base/error.h"
#include "runtime/devices.h"
#include "runtime/streams.h"

namespace spyre::runtime {
namespace {

Event::Clock default_clock() {
  static const Event::Clock clock = [] {
    const std::string text = base::env_string("SPYRE_EVENT_CLOCK", "modelled");
    if (text == "modelled") return Event::Clock::modelled;
    if (text == "host") return Event::Clock::host;
    fail(Fault::configuration, "SPYRE_EVENT_CLOCK is '{}', not 'modelled' or 'host'", text);
  }();
  return clock;
}

}  // namespace

Event::Event(std::optional<Clock> clock) : clock_(clock ? *clock : default_clock()) {}

std::shared_ptr<Signal> Event::latest() const {
  std::lock_guard lock(mutex_);
  return signal_;
}

void Event::record(Stream& stream) {
  check_process();
  auto signal = stream.record();
  std::lock_guard lock(mutex_);
  signal_ = std::move(signal);
}

void Event::block(Stream& stream) const { stream.wait(latest()); }

// The stream that failed has been told of it then: one report an error, wherever it comes first.
void Event::report(const Signal& signal) const {
  const FailurePtr failure = signal.failure();
  if (!failure || failure->reported.exchange(true)) return;
  signal.stream().clear(failure);
  std::rethrow_exception(failure->error);
}

bool Event::query() const {
  check_process();
  const auto signal = latest();
  if (!signal) return true;
  if (!signal->reached()) return false;
  report(*signal);
  return true;
}

void Event::synchronize() const {
  check_process();
  const auto signal = latest();
  if (!signal) return;
  signal->wait();
  report(*signal);
}

double Event::elapsed_ms(const Event& end) const {
  const auto from = latest(), to = end.latest();
  if (!from || !to)
    fail(Fault::user, "elapsed_time: both events must be recorded before the time between them is asked for");
  if (!from->reached() || !to->reached())
    fail(Fault::user, "elapsed_time: both events must have completed; call synchronize() on them first");
  if (clock_ == Clock::host) return static_cast<double>(to->host_ns() - from->host_ns()) * 1e-6;
  return static_cast<double>(to->modelled_ps() - from->modelled_ps()) * 1e-9;
}

}  // namespace spyre::runtime
