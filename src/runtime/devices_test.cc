#include "runtime/devices.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "runtime/test_device.h"

namespace spyre::runtime {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { value ? setenv(name, value, 1) : unsetenv(name); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(DeviceCount, CountsWithoutStartingAndWithoutThrowing) {
  const auto count = [](const char* list, const char* world) {
    const Variable a("SPYRE_DEVICES", list), b("AIU_WORLD_SIZE", world);
    return device_count();
  };
  EXPECT_EQ(count(nullptr, nullptr), 1);
  EXPECT_EQ(count("", ""), 1);
  EXPECT_EQ(count("0,1", nullptr), 2);
  EXPECT_EQ(count("3, 1,7", "2"), 3);
  EXPECT_EQ(count(nullptr, "4"), 4);
  EXPECT_EQ(count(nullptr, "0"), 0);
  for (const char* bad : {"x", "0,,1", ",", "0,0", "-1", "1;2", "99999999999999999999"})
    EXPECT_EQ(count(bad, nullptr), 0) << bad;
  EXPECT_EQ(count(nullptr, "many"), 0);
}

TEST(DeviceStart, TellsWhyThereIsNoDevice) {
  const Variable list("SPYRE_DEVICES", "0,zero");
  try {
    device(0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::configuration);
    EXPECT_NE(std::string(error.what()).find("SPYRE_DEVICES"), std::string::npos);
  }
  const Variable two("SPYRE_DEVICES", "0,1");
  EXPECT_THROW(device(2), Error);
  EXPECT_THROW(device(-1), Error);
  EXPECT_EQ(started_device(-1), nullptr);
  EXPECT_EQ(started_device(1000), nullptr);
}

TEST(DeviceStart, OrdinalsComeFromTheListAndDevicesAreTheSameEachTime) {
  const Variable list("SPYRE_DEVICES", "5,3");
  EXPECT_EQ(device(1).ordinal(), 3);
  EXPECT_EQ(device(1).index(), 1);
  EXPECT_EQ(&device(1), &device(1));
  EXPECT_EQ(started_device(1), &device(1));
  EXPECT_TRUE(started());
}

// Runs `body` in a forked child; true when it returned true there.
template <typename F>
bool in_child(F body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, AChildThatTouchesTheDeviceGetsAnErrorAndMayStillFree) {
  Device device(0, small_description());
  auto tensor = std::make_unique<TestTensor>(device, std::vector<int64_t>{64}, base::HostType::f32);
  put(counting<float>(64), tensor->tensor(), device.default_stream());
  const bool refused = in_child([&] {
    int errors = 0;
    const auto expect = [&](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        errors += error.fault() == Fault::user && std::string(error.what()).find("spawn") != std::string::npos;
      }
    };
    expect([&] { runtime::device(0); });
    expect([&] { device.synchronize(); });
    expect([&] { device.default_stream().synchronize(); });
    expect([&] { device.allocator().allocate(64, device.default_stream()); });
    expect([&] { get<float>(tensor->tensor(), device.default_stream()); });
    expect([&] { Event().record(device.default_stream()); });
    tensor.reset();
    return errors == 6 && in_forked_child() && !started();
  });
  EXPECT_TRUE(refused);
  EXPECT_FALSE(in_forked_child());
  EXPECT_EQ(get<float>(tensor->tensor(), device.default_stream()), counting<float>(64));
}

TEST(Fork, AChildThatLeavesTheDeviceAloneExitsAsUsual) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the leak check of a forked child counts the parent's threads";
#endif
  Device device(0, small_description());
  device.default_stream().submit({"w", WorkKind::other, 1'000'000, false}, [] { return int64_t{0}; });
  const pid_t child = fork();
  if (child == 0) std::exit(3);  // runs the exit handlers
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

}  // namespace
}  // namespace spyre::runtime
