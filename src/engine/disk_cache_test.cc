#include "engine/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/engine.h"
#include "engine/launch_for_test.h"

namespace spyre::engine {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes(size_t n, int value) { return std::vector<std::byte>(n, static_cast<std::byte>(value)); }

size_t files_in(const std::string& directory) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(directory)) ++n;
  return n;
}

/// While it lives, warnings are gathered.
struct Warnings {
  Warnings() {
    set_warning_hook([this](const std::string& text) { all.push_back(text); });
  }
  ~Warnings() { set_warning_hook(nullptr); }
  std::vector<std::string> all;
};

TEST(DiskCache, KeepsWhatWasStored) {
  const TemporaryDirectory dir;
  DiskCache cache(dir.path + "/a/b", 1 << 20);
  EXPECT_FALSE(cache.load("x"));
  cache.store("x", bytes(1000, 1));
  cache.store("y", bytes(10, 2));
  EXPECT_EQ(cache.load("x"), bytes(1000, 1));
  cache.store("x", bytes(5, 3));
  EXPECT_EQ(cache.load("x"), bytes(5, 3));
  cache.discard("x");
  EXPECT_FALSE(cache.load("x"));
  EXPECT_EQ(DiskCache(dir.path + "/a/b", 1 << 20).load("y"), bytes(10, 2));
  EXPECT_EQ(files_in(dir.path + "/a/b"), 1u);
}

TEST(DiskCache, TheLeastRecentlyUsedFilesGo) {
  const TemporaryDirectory dir;
  DiskCache cache(dir.path, 10'000);
  const auto age = [&](const std::string& key, int hours) {
    fs::last_write_time(cache.path(key), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (int i = 0; i < 9; ++i) {
    const std::string key = "k" + std::to_string(i);
    cache.store(key, bytes(1000, i));
    age(key, 20 - i);
  }
  EXPECT_TRUE(cache.load("k0"));  // used now
  cache.store("big", bytes(2000, 0));
  EXPECT_TRUE(cache.load("k0"));
  EXPECT_FALSE(cache.load("k1"));
  EXPECT_TRUE(cache.load("k8"));
  EXPECT_TRUE(cache.load("big"));
  int64_t total = 0;
  for (const auto& file : fs::directory_iterator(dir.path)) total += static_cast<int64_t>(file.file_size());
  EXPECT_LE(total, 10'000);
}

TEST(DiskCache, AbandonedTemporaryFilesGo) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path + "/old.tmp") << "x";
  std::ofstream(dir.path + "/new.tmp") << "x";
  fs::last_write_time(dir.path + "/old.tmp", fs::file_time_type::clock::now() - std::chrono::hours(5));
  DiskCache cache(dir.path, 10'000);
  cache.store("k", bytes(10, 0));
  EXPECT_FALSE(fs::exists(dir.path + "/old.tmp"));
  EXPECT_TRUE(fs::exists(dir.path + "/new.tmp"));
}

TEST(DiskCache, AnUnusableDirectoryIsWarnedAboutOnce) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path + "/file") << "x";
  Warnings warnings;
  DiskCache cache(dir.path + "/file/cache", 1 << 20);
  cache.store("k", bytes(10, 0));
  cache.store("k", bytes(10, 0));
  EXPECT_FALSE(cache.load("k"));
  ASSERT_EQ(warnings.all.size(), 1u);
  EXPECT_NE(warnings.all[0].find("SPYRE_CACHE_DIR"), std::string::npos);
}

// A child of ConcurrentProcesses: rewrites and reads the same few keys; every file that it sees is whole.
TEST(DiskCache, DISABLED_Child) {
  const char* const dir = std::getenv("SPYRE_TEST_CACHE");
  ASSERT_NE(dir, nullptr);
  DiskCache cache(dir, 40'000);
  const int mine = getpid() % 100;
  for (int round = 0; round < 300; ++round) {
    const std::string key = "k" + std::to_string(round % 7);
    cache.store(key, bytes(5000, mine));
    const auto found = cache.load(key);
    if (!found) continue;  // trimmed by the other one
    ASSERT_EQ(found->size(), 5000u);
    ASSERT_EQ(*found, bytes(5000, static_cast<int>((*found)[0])));
  }
}

TEST(DiskCache, ProcessesShareADirectory) {
  const TemporaryDirectory dir;
  ASSERT_EQ(setenv("SPYRE_TEST_CACHE", dir.path.c_str(), 1), 0);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      execl(self.c_str(), self.c_str(), "--gtest_filter=DiskCache.DISABLED_Child", "--gtest_also_run_disabled_tests",
            "--gtest_brief=1", nullptr);
      _exit(127);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (const auto& file : fs::directory_iterator(dir.path)) EXPECT_EQ(file.path().extension(), ".spyre");
}

}  // namespace
}  // namespace spyre::engine
