#include "base/trace_writer.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/error.h"

namespace spyre::base {
namespace {

constexpr size_t flush_bytes = 1 << 16;

// Length of the UTF-8 sequence at the start of text, or 0 if it is not valid (overlong and surrogates included).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    return (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0) ? 0 : 3;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    return (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90) ? 0 : 4;
  }
  return 0;
}

std::string json_value(const TraceArg& arg) {
  if (const auto* text = std::get_if<std::string_view>(&arg.value)) return json_string(*text);
  if (const auto* number = std::get_if<int64_t>(&arg.value)) return fmt::format("{}", *number);
  const double value = std::get<double>(arg.value);
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);  // JSON has no inf and nan
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    if (length == 0) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<uint8_t>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out.append(text, i, length);
    i += length;
  }
  return out += '"';
}

std::string microseconds(int64_t ps) {
  const uint64_t magnitude = ps < 0 ? 0 - static_cast<uint64_t>(ps) : static_cast<uint64_t>(ps);
  return fmt::format("{}{}.{:06}", ps < 0 ? "-" : "", magnitude / 1000000, magnitude % 1000000);
}

TraceWriter::TraceWriter(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
  if (!file_) fail(Fault::system, "cannot write trace {}: {}", path_, std::strerror(errno));
  buffer_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
}

TraceWriter::~TraceWriter() {
  try {
    close();
  } catch (const Error&) {  // reported by an explicit close() only
  }
}

void TraceWriter::begin_event() {
  if (!file_) fail(Fault::system, "trace {} is closed", path_);
  if (!first_) buffer_ += ",\n";
  first_ = false;
}

void TraceWriter::put(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= flush_bytes) flush();
}

void TraceWriter::flush() {
  const size_t written = std::fwrite(buffer_.data(), 1, buffer_.size(), file_);
  if (written != buffer_.size()) fail(Fault::system, "cannot write trace {}: {}", path_, std::strerror(errno));
  buffer_.clear();
}

void TraceWriter::name_process(int process, std::string_view name) {
  begin_event();
  put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, json_string(name)));
}

void TraceWriter::name_thread(int process, int thread, std::string_view name, int order) {
  begin_event();
  put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process, thread,
                  json_string(name)));
  begin_event();
  put(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
                  thread, order));
}

void TraceWriter::complete(int process, int thread, std::string_view name, std::string_view category, int64_t start_ps,
                           int64_t duration_ps, std::span<const TraceArg> args) {
  begin_event();
  std::string text =
      fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{})", json_string(name),
                  json_string(category), process, thread, microseconds(start_ps), microseconds(duration_ps));
  const char* separator = ",\"args\":{";
  for (const TraceArg& arg : args) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}", separator, json_string(arg.name), json_value(arg));
    separator = ",";
  }
  put(text += args.empty() ? "}" : "}}");
}

void TraceWriter::counter(int process, std::string_view name, int64_t time_ps, double value) {
  begin_event();
  put(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}}}})", json_string(name), process,
                  microseconds(time_ps), json_value({"", value})));
}

void TraceWriter::close() {
  if (!file_) return;
  std::FILE* file = file_;
  buffer_ += "\n]}\n";
  const bool written = std::fwrite(buffer_.data(), 1, buffer_.size(), file) == buffer_.size();
  const int write_error = errno;
  file_ = nullptr;
  buffer_.clear();
  if (std::fclose(file) != 0 || !written)
    fail(Fault::system, "cannot write trace {}: {}", path_, std::strerror(written ? errno : write_error));
}

}  // namespace spyre::base
