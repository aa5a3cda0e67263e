#include "engine/disk_cache.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include <fmt/format.h>

#include "engine/options.h"

namespace spyre::engine {

namespace fs = std::filesystem;

namespace {

constexpr const char* suffix = ".spyre";
constexpr const char* temporary_suffix = ".tmp";
constexpr auto abandoned = std::chrono::hours(1);  // age at which a temporary file has no writer any more

}  // namespace

DiskCache::DiskCache(std::string directory, int64_t limit) : directory_(std::move(directory)), limit_(limit) {}

std::string DiskCache::path(const std::string& key) const { return directory_ + "/" + key + suffix; }

std::optional<std::vector<std::byte>> DiskCache::load(const std::string& key) {
  const std::string name = path(key);
  std::ifstream file(name, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  if (file.gcount() != size) bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  std::error_code ignored;  // the time is a hint, and the directory may be read-only
  fs::last_write_time(name, fs::file_time_type::clock::now(), ignored);
  return bytes;
}

void DiskCache::store(const std::string& key, std::span<const std::byte> bytes) {
  std::string temporary;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    if (!ready_) {
      std::error_code error;
      fs::create_directories(directory_, error);
      if (error) return unusable(error.message());
      ready_ = true;
    }
    temporary = fmt::format("{}/{}.{:016x}{:08x}.{}{}", directory_, key,
                            static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()),
                            std::random_device()(), ++temporary_, temporary_suffix);
  }
  std::error_code error;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(temporary, path(key), error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    const std::lock_guard lock(mutex_);
    return unusable("no file can be written there: " + error.message());
  }
  const std::lock_guard lock(mutex_);
  // The first time, and whenever this process may have filled a part of it.
  const bool first = since_trim_ == 0;
  since_trim_ += std::max<int64_t>(static_cast<int64_t>(bytes.size()), 1);
  if (first || since_trim_ > limit_ / 16) trim();
}

void DiskCache::discard(const std::string& key) {
  std::error_code ignored;
  fs::remove(path(key), ignored);
}

// Other processes may remove the same files at the same time: what is gone already is no error.
void DiskCache::trim() {
  struct Found {
    fs::file_time_type time;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Found> files;
  int64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const auto time = it->last_write_time(gone);
    const auto bytes = gone ? 0 : it->file_size(gone);
    if (gone) continue;
    const std::string extension = it->path().extension().string();
    if (extension == temporary_suffix && now - time > abandoned) fs::remove(it->path(), gone);
    if (extension != suffix) continue;
    files.push_back({time, static_cast<int64_t>(bytes), it->path()});
    total += static_cast<int64_t>(bytes);
  }
  since_trim_ = 1;
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  for (const Found& f : files) {
    if (total <= limit_ - limit_ / 8) break;
    std::error_code gone;
    fs::remove(f.path, gone);
    total -= f.bytes;
  }
}

void DiskCache::unusable(const std::string& why) {
  if (broken_) return;
  broken_ = true;
  warn(
      fmt::format("the cache directory {} can't be used ({}): programs are compiled anew in every process. Set "
                  "SPYRE_CACHE_DIR to a directory that can be written, or SPYRE_CACHE=0.",
                  directory_, why));
}

}  // namespace spyre::engine
