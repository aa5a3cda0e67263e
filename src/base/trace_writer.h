// Writes traces that Perfetto and chrome://tracing open: the Chrome JSON trace event format.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace spyre::base {

/// One named value of an event, shown when it is selected.
struct TraceArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

/// Streams events to a file. A *process* groups tracks (a device, the host); a *thread* is one track (a unit of a
/// core). Not thread-safe. Every call throws Error(system) naming the file when it cannot be written.
class TraceWriter {
 public:
  explicit TraceWriter(const std::string& path);
  /// Closes without throwing; call close() to learn whether all of it was written.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void name_process(int process, std::string_view name);
  /// Tracks of a process are shown in the order of `order`.
  void name_thread(int process, int thread, std::string_view name, int order = 0);

  /// Something that took time on a track: start and duration in integer picoseconds.
  void complete(int process, int thread, std::string_view name, std::string_view category, int64_t start_ps,
                int64_t duration_ps, std::span<const TraceArg> args = {});
  void complete(int process, int thread, std::string_view name, std::string_view category, int64_t start_ps,
                int64_t duration_ps, std::initializer_list<TraceArg> args) {
    complete(process, thread, name, category, start_ps, duration_ps, std::span(args.begin(), args.size()));
  }
  /// The value of a counter from a time (ps) on.
  void counter(int process, std::string_view name, int64_t time_ps, double value);

  /// Ends the JSON text and the file. Later events throw.
  void close();

 private:
  void begin_event();
  void put(std::string_view text);
  void flush();

  std::string path_;
  std::string buffer_;
  std::FILE* file_ = nullptr;
  bool first_ = true;
};

/// Text as a JSON string with its quotes; bytes that aren't UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// Picoseconds as decimal microseconds, exactly: 1234567 is "1.234567".
std::string microseconds(int64_t ps);

}  // namespace spyre::base
