// Trace: what the streams of the process did, in modelled time, as a file for Perfetto.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/streams.h"

namespace spyre::runtime {

/// Records from now on: one track per stream; kernels (each call of a program), copies and signals. Throws Error(user)
/// when a trace is on, Error(system) when the file can't be written.
void start_trace(const std::string& path);
/// Writes the file and stops. Does not wait for queued work: synchronise first. Throws Error(user) when no trace is on.
void stop_trace();
/// True while a trace is on.
bool tracing() noexcept;

/// Adds a span to the stream's track; the caller checks tracing() first. For work that knows more than its WorkInfo.
void trace_span(const Stream& stream, const std::string& name, WorkKind kind, int64_t start_ps, int64_t duration_ps,
                int64_t bytes = 0);

}  // namespace spyre::runtime
