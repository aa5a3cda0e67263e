// The container keeps a program, and whatever bytes come, reading ends in a sound program or an Error.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/fuzz_for_test.h"
#include "program/container.h"
#include "program/every_statement_text.h"
#include "program/example_text.h"
#include "program/program.h"
#include "program/structure.h"

namespace spyre::program {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<std::string> texts() {
  std::vector<std::string> all = {every_statement, ""};
  for (const char* name : example_names) all.push_back(example_text(name));
  return all;
}

TEST(Container, KeepsEveryProgram) {
  for (const std::string& text : texts()) {
    const Program program = assemble(text);
    const Bytes bytes = write(program);
    const Program again = read(bytes);
    EXPECT_EQ(write(again), bytes);
    EXPECT_EQ(print(again), print(program));
    if (text != every_statement) {  // that one holds a NaN, which equals nothing
      EXPECT_EQ(again, program);
    }
  }
}

TEST(Container, TheFormatOfVersion1DoesNotDrift) {
  const Bytes bytes = write(assemble("sym x: in f32 [3] geo{f32 n=3 d=32 (1,32,1,32)*1} loc 0 \"op\" \"a.py:1\""));
  std::string hex;
  for (std::byte b : bytes) hex += fmt::format("{:02x}", static_cast<int>(b));
  EXPECT_EQ(hex.substr(0, 32),
            "53505450"            // magic
            "01000000"            // version
            "2100000000000000");  // bytes of payload
  EXPECT_EQ(hex.substr(40),
            "01"
            "0178"
            "00"
            "02"  // one symbol: x, in, f32
            "0106"
            "0102"
            "00"  // sizes, strides, offset
            "02"
            "06"
            "40"  // geometry: f32, 3 in 32
            "01"
            "0240024002"  // one digit
            "00"          // no scalars
            "01"
            "026f70"
            "06612e70793a31"  // one loc
            "00"
            "00");  // no kernels, no calls
}

TEST(Container, EveryTruncationIsAnError) {
  for (const std::string& text : texts()) {
    const Bytes bytes = write(assemble(text));
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(read(std::span(bytes).first(n)), Error) << n;
    const auto payload = container::open(bytes);
    for (size_t n = 0; n < payload.size(); ++n) EXPECT_THROW(read(container::seal(payload.first(n))), Error) << n;
  }
}

TEST(Container, EveryFlippedBitIsAnError) {
  for (const char* name : {"linear", "cumsum"}) {
    Bytes bytes = write(assemble(example_text(name)));
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      EXPECT_THROW(read(bytes), Error) << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(Container, RefusesAnotherVersionByName) {
  Bytes bytes = write(assemble(""));
  bytes[4] = std::byte{2};
  try {
    read(bytes);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "program container: version 2, this build reads version 1");
  }
}

/// Damage behind a right checksum: what is read is sound, has one encoding, and its text means the same program.
TEST(ContainerFuzz, DamagedPayloadsGiveASoundProgramOrAnError) {
  std::mt19937_64 random(base::fuzz_seed(20'260'101));
  std::vector<Bytes> payloads;
  for (const std::string& text : texts()) {
    const Bytes bytes = write(assemble(text));
    const auto payload = container::open(bytes);
    payloads.emplace_back(payload.begin(), payload.end());
  }
  const int64_t count = base::fuzz_cases(10'000);
  int64_t accepted = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bytes bytes = payloads[random() % payloads.size()];
    for (uint64_t edits = 1 + random() % 3; edits > 0 && !bytes.empty(); --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1 << random() % 8);
          break;
        case 1:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 2:
          bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at));
          break;
        case 3:
          bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), static_cast<std::byte>(random()));
          break;
        default: {
          const Bytes& other = payloads[random() % payloads.size()];
          for (size_t n = random() % 16, from = random(); n > 0 && !other.empty(); --n, ++from) {
            if (at + n < bytes.size()) bytes[at + n] = other[from % other.size()];
          }
        }
      }
    }
    const Bytes sealed = container::seal(bytes);
    Program program;
    try {
      program = read(sealed);
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::program) << e.what();
      continue;
    }
    ++accepted;
    ASSERT_EQ(write(program), sealed) << "input " << i;
    const std::string text = print(program);
    Program again;
    try {
      again = assemble(text);
    } catch (const Error& e) {
      FAIL() << "input " << i << ": " << e.what() << "\n" << text;
    }
    bool placed = true;
    for (const Kernel& k : program.kernels) {
      for (const Buffer& b : k.buffers) placed = placed && b.lx_offset >= 0;
    }
    if (placed) {
      ASSERT_EQ(write(again), sealed) << "input " << i << "\n" << text;
    }
  }
  std::printf("%lld of %lld damaged containers were still sound programs\n", static_cast<long long>(accepted),
              static_cast<long long>(count));
}

TEST(AssemblerFuzz, MutatedTextGivesAProgramOrAnError) {
  std::mt19937_64 random(base::fuzz_seed(20'260'101));
  const std::vector<std::string> all = texts();
  const std::string_view pieces[] = {"(",     ")",      "[",         "]",    "{",       "}",
                                     "..",    "..+",    ",",         ";",    ":",       "-",
                                     "!",     "^T",     "0",         "1",    "65536",   "9223372036854775807",
                                     "1e308", "inf",    "for k in ", " by ", "if ",     "buf b f32[1] ",
                                     "_",     "iota1",  "\"",        "#",    "geo{",    "min(",
                                     "in",    " fill ", "x2",        "@",    "uniform", "\n",
                                     "\xff",  "gelu(",  "= "};
  const int64_t asked = base::fuzz_cases(10'000);
  const int64_t count = asked > 100'000 ? asked / 10 : asked;  // a text costs several times what bytes cost
  int64_t accepted = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::string text = all[random() % all.size()];
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = text.empty() ? 0 : random() % text.size();
      switch (random() % 5) {
        case 0:
          text.erase(at, random() % 8);
          break;
        case 1:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          text.replace(at, std::min<size_t>(1, text.size() - at), 1, static_cast<char>(32 + random() % 95));
          break;
        case 3:
          text.insert(at, text, random() % (text.size() + 1), random() % 40);
          break;
        default:
          text.replace(at, random() % 8, pieces[random() % std::size(pieces)]);
          break;
      }
    }
    Program program;
    try {
      program = assemble(text);
    } catch (const Error& e) {
      EXPECT_TRUE(e.fault() == Fault::program) << e.what() << "\n" << text;
      continue;
    }
    ++accepted;
    const std::string printed = print(program);
    ASSERT_EQ(write(assemble(printed)), write(program)) << "input " << i << "\n" << text << "\n" << printed;
  }
  std::printf("%lld of %lld mutated texts were still programs\n", static_cast<long long>(accepted),
              static_cast<long long>(count));
}

}  // namespace
}  // namespace spyre::program
