#include "device/description.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "device/builtin.h"
#include "device/fields.h"

namespace spyre::device {
namespace {

using Json = nlohmann::json;

/// Refuses a key that stands twice in one object: JSON would silently keep the last.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(std::string_view origin) : origin_(origin) {}
  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen_.emplace_back();
    if (event == Json::parse_event_t::object_end) seen_.pop_back();
    if (event == Json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      if (!seen_.back().insert(key).second) {
        fail(Fault::configuration, "device description {}: field \"{}\" stands twice in one object", origin_, key);
      }
    }
    return true;
  }

 private:
  std::string origin_;
  std::vector<std::set<std::string>> seen_;
};

class Reader {
 public:
  Reader(const Json& root, std::string_view origin) : root_(root), origin_(origin) {}

  template <typename T>
  void operator()(const std::string& path, T& out, const char* unit, const char* kind, double lo, double hi) {
    known_.insert(path);
    const Json& value = constant(path, unit, kind);
    if constexpr (std::is_same_v<T, std::vector<Description::RowSplit>>) {
      if (!value.is_array() || value.empty()) wrong(path + ".value", "expected a list of [bytes, GB/s] pairs");
      for (const Json& pair : value) {
        if (!pair.is_array() || pair.size() != 2) wrong(path + ".value", "expected a list of [bytes, GB/s] pairs");
        Description::RowSplit entry;
        number(path, pair[0], entry.stride_bytes, lo, hi);
        number(path, pair[1], entry.gbps, lo, hi);
        if (!out.empty() && entry.stride_bytes <= out.back().stride_bytes) {
          wrong(path + ".value", "strides must ascend");
        }
        out.push_back(entry);
      }
    } else {
      number(path, value, out, lo, hi);
    }
  }

  /// Every field of the file must be one that was read.
  void refuse_unknown() const {
    for (const auto& [group, fields] : root_.items()) {
      if (group == "name") continue;
      if (!fields.is_object()) wrong(group, "unknown field");
      bool any = false;
      for (const auto& [name, entry] : fields.items()) {
        if (!known_.count(group + "." + name)) wrong(group + "." + name, "unknown field");
        any = true;
        static_cast<void>(entry);
      }
      if (!any) wrong(group, "unknown field");
    }
  }

  [[noreturn]] void wrong(const std::string& path, const std::string& what) const {
    fail(Fault::configuration, "device description {}: {}: {}", origin_, path, what);
  }

 private:
  const Json& constant(const std::string& path, const char* unit, const char* kind) const {
    const size_t dot = path.find('.');
    const auto group = root_.find(path.substr(0, dot));
    if (group == root_.end()) wrong(path.substr(0, dot), "missing field");
    if (!group->is_object()) wrong(path.substr(0, dot), "expected an object");
    const auto entry = group->find(path.substr(dot + 1));
    if (entry == group->end()) wrong(path, "missing field");
    if (!entry->is_object()) wrong(path, "expected an object with value, unit, kind, sure and source");
    for (const auto& [name, part] : entry->items()) {
      if (name != "value" && name != "unit" && name != "kind" && name != "sure" && name != "source") {
        wrong(path + "." + name, "unknown field");
      }
      if (name != "value" && !part.is_string()) wrong(path + "." + name, "expected text");
    }
    for (const char* part : {"value", "unit", "kind", "sure", "source"}) {
      if (!entry->contains(part)) wrong(path + "." + part, "missing field");
    }
    text(path + ".unit", (*entry)["unit"], {unit});
    text(path + ".kind", (*entry)["kind"], {kind});
    text(path + ".sure", (*entry)["sure"], {"high", "medium", "low", "assumed"});
    if ((*entry)["source"].get<std::string>().empty()) wrong(path + ".source", "must say where the value comes from");
    return (*entry)["value"];
  }

  void text(const std::string& path, const Json& got, std::initializer_list<const char*> allowed) const {
    std::string list;
    for (const char* one : allowed) {
      if (got.get<std::string>() == one) return;
      list += (list.empty() ? "\"" : ", \"") + std::string(one) + "\"";
    }
    wrong(path, "is \"" + got.get<std::string>() + "\", expected " + list);
  }

  template <typename T>
  void number(const std::string& path, const Json& value, T& out, double lo, double hi) const {
    if constexpr (std::is_integral_v<T>) {
      if (!value.is_number_integer()) wrong(path + ".value", fmt::format("expected an integer, got {}", value.dump()));
    } else {
      if (!value.is_number()) wrong(path + ".value", fmt::format("expected a number, got {}", value.dump()));
    }
    const double number = value.get<double>();
    if (!(number >= lo && number <= hi)) {
      wrong(path + ".value", fmt::format("{} is outside the sane range {} to {}", value.dump(), lo, hi));
    }
    out = value.get<T>();
  }

  const Json& root_;
  std::string origin_;
  std::set<std::string> known_;
};

void check_consistency(const Description& d, const Reader& reader) {
  const auto need = [&](bool good, const char* path, const char* what) {
    if (!good) reader.wrong(path, what);
  };
  need(d.lx_usable_bytes <= d.lx_bytes, "lx.usable_bytes", "is more than lx.bytes");
  need(d.stack.lx_usable_bytes <= d.lx_usable_bytes, "stack.lx_usable_bytes", "is more than lx.usable_bytes");
  need(d.corelets_per_core * int64_t{d.pt_rows} * d.pt_columns * d.pt_simd == d.pt_macs_per_cycle_core,
       "pt.macs_per_cycle_core", "is not corelets_per_core x rows x columns x simd");
  need(d.segments * d.segment_bytes == d.address_space_bytes, "memory.address_space_bytes",
       "is not segments x segment_bytes");
  need(d.memory_bytes <= d.address_space_bytes - d.segment_bytes, "memory.bytes",
       "leaves no segment for programs within memory.address_space_bytes");
  need(d.segment_bytes % d.allocation_alignment_bytes == 0, "memory.segment_bytes",
       "is not a multiple of memory.allocation_alignment_bytes");
  need(d.allocation_alignment_bytes % (d.channels * d.channel_interleave_bytes) == 0,
       "memory.allocation_alignment_bytes", "is not a multiple of channels x channel_interleave_bytes");
  need(d.memory_gbps <= d.memory_port_gbps, "memory.gbps", "is more than memory.port_gbps");
  need(d.memory_port_gbps <= d.memory_raw_gbps, "memory.port_gbps", "is more than memory.raw_gbps");
  need(d.memory_core_gbps <= d.memory_core_gbps_all, "memory.core_gbps", "is more than memory.core_gbps_all");
  for (const auto& entry : d.row_split) {
    need(entry.gbps <= d.memory_gbps, "memory.row_split_gbps", "has a rate above memory.gbps");
  }
  need(d.ring_nodes == d.cores + 1, "ring.nodes", "is not chip.cores + 1 (the memory node)");
}

void set_hash(Description& d) {
  base::Hasher hasher;
  const auto add = [&](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      hasher.add(std::bit_cast<uint64_t>(static_cast<double>(value)));
    } else {
      hasher.add(static_cast<uint64_t>(static_cast<int64_t>(value)));
    }
  };
  hasher.add(d.name);
  visit_fields(d, [&](const std::string& path, auto& value, const char*, const char*, double, double) {
    hasher.add(path);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<Description::RowSplit>>) {
      add(int64_t(value.size()));
      for (const auto& entry : value) {
        add(entry.stride_bytes);
        add(entry.gbps);
      }
    } else {
      add(value);
    }
  });
  d.hash = hasher.finish().hex();
}

}  // namespace

Description parse_description(std::string_view json, std::string_view origin) {
  Json root;
  try {
    root = Json::parse(json.begin(), json.end(), DuplicateKeys(origin));
  } catch (const Json::exception& error) {
    fail(Fault::configuration, "device description {}: not valid JSON: {}", origin, error.what());
  }
  if (!root.is_object()) fail(Fault::configuration, "device description {}: expected an object", origin);
  Description d;
  Reader reader(root, origin);
  const auto name = root.find("name");
  if (name == root.end()) reader.wrong("name", "missing field");
  if (!name->is_string() || name->get<std::string>().empty()) reader.wrong("name", "expected text");
  d.name = name->get<std::string>();
  visit_fields(d, reader);
  reader.refuse_unknown();
  check_consistency(d, reader);
  set_hash(d);
  return d;
}

Description load_description() {
  const std::string path = base::env_string("SPYRE_DESCRIPTION", "");
  Description d;
  if (path.empty()) {
    d = parse_description(builtin_json(), "(built in)");
  } else {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    if (!file || !text) {
      fail(Fault::configuration, "SPYRE_DESCRIPTION={}: the file can't be read", path);
    }
    d = parse_description(text.str(), path);
  }
  // Fewer cores leave the ring as it is: the others are there, but idle.
  const int cores = static_cast<int>(base::env_int("SENCORES", d.cores, 1, d.cores));
  if (cores != d.cores) {
    d.cores = cores;
    set_hash(d);
  }
  return d;
}

const Description& current_description() {
  static const Description d = load_description();
  return d;
}

}  // namespace spyre::device
