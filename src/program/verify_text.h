// Short programs for the verifier's tests: one kernel, bound to symbols like its formals.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "device/description.h"
#include "program/program.h"

namespace spyre::program {

/// `symbols` like "x: in dl16 [256,512]", `scalars` like "len: i32 in 0..512"; `body` holds the nests.
inline std::string one_kernel(const std::vector<std::string>& symbols, const std::string& body,
                              const std::string& scalars = "") {
  std::string text, formals, actuals;
  for (const std::string& s : symbols) {
    text += "sym " + s + "\n";
    formals += (formals.empty() ? "" : ", ") + s;
    actuals += (actuals.empty() ? "" : ", ") + s.substr(0, s.find(':'));
  }
  if (!scalars.empty()) {
    text += "scalar " + scalars + "\n";
    formals += "; " + scalars;
    actuals += "; " + scalars.substr(0, scalars.find(':'));
  }
  return text + "loc 0 \"aten.op\" \"model.py:7\"\nkernel k(" + formals + ") cores 32 {\n" + body + "\n}\ncall k(" +
         actuals + ")\n";
}

/// The verifier's message, or nothing when it accepts. Fails the test on an error of another kind.
inline std::string verdict(const Program& program) {
  static const device::Description description = device::load_description();
  try {
    verify(program, description);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::program) << e.what();
    EXPECT_NE(std::string(e.what()), "");
    return e.what();
  }
}
inline std::string verdict(const std::string& text) { return verdict(assemble(text)); }

#define EXPECT_LEGAL(text) EXPECT_EQ(verdict(text), "")
/// Refused by a message that names the kernel (or call) and has these words.
#define EXPECT_REFUSED(text, words)                                                                        \
  do {                                                                                                     \
    const std::string message = verdict(text);                                                             \
    EXPECT_NE(message.find(words), std::string::npos) << "wanted: " << (words) << "\n   got: " << message; \
    EXPECT_NE(message.find("kernel"), std::string::npos) << message;                                       \
  } while (false)

}  // namespace spyre::program
