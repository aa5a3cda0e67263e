// Results that go to memory without a stop in LX, and tiles decoded once for several steps: the same bits as in the
// modes that do neither.
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

/// `body` makes and stores o from v, tiles of 4 rows of x; the last trip is clipped when rows don't divide.
std::string tiles(int rows, int cols, const std::string& body, const std::string& y = "out") {
  const std::string n = std::to_string(cols), r = std::to_string(rows);
  return one_kernel({"x: in dl16 [" + r + "," + n + "]", "y: " + y + " dl16 [" + r + "," + n + "]"}, "c:3",
                    "core r in 0.." + r + " by 12 on c\n for t in r by 4 {\n buf v dl16[4," + n +
                        "] x2\n ld v = x[t, 0.." + n + "]\n buf o dl16[4," + n + "] x2\n buf e f32[4," + n +
                        "] x2\n buf m f32[4,1] x2\n" + body + "\n }");
}

void same_in_every_way(const std::string& text) {
  SCOPED_TRACE(text);
  Machine m(text);
  m.set("x", noise(3));
  m.run_every_way();
}

const std::string store = "\n st y[t, 0..";

TEST(StoreForward, WholeAndClippedTilesOfManyWidths) {
  for (int cols : {64, 77, 128, 192, 320, 512, 1024, 1088, 2048, 12288})
    for (int rows : {31, 36})
      same_in_every_way(tiles(rows, cols, "sfp o = v * 2 + 1" + store + std::to_string(cols) + "] = o"));
}

TEST(StoreForward, SeveralStepsReadOneTile) {
  same_in_every_way(tiles(36, 1024,
                          "sfp.red m = max(v over 1)\n sfp e = exp(v - m)\n sfp.red m = sum(e over 1)\n sfp o = e / m" +
                              store + "1024] = o"));
}

TEST(StoreForward, AResultThatIsReadAgainStaysInLx) {
  same_in_every_way(one_kernel({"x: in dl16 [24,128]", "y: out dl16 [24,128]", "z: out dl16 [24,128]"}, "c:2",
                               "core r in 0..24 by 12 on c\n for t in r by 4 {\n buf v dl16[4,128] x2\n"
                               "ld v = x[t, 0..128]\n buf o dl16[4,128] x2\n sfp o = v * 2\n st y[t, 0..128] = o\n"
                               "buf p dl16[4,128] x2\n sfp p = o + v\n st z[t, 0..128] = p\n }"));
}

TEST(StoreForward, OneValuePerRowAndConstants) {
  same_in_every_way(tiles(36, 128, "sfp.red m = sum(v over 1)\n sfp o = m" + store + "128] = o"));
  same_in_every_way(tiles(36, 128, "sfp o = 0.25" + store + "128] = o"));
}

TEST(StoreForward, InPlace) {
  const std::string text = one_kernel({"x: inout dl16 [24,256]"}, "c:2",
                                      "core r in 0..24 by 12 on c\n for t in r by 4 {\n buf v dl16[4,256] x2\n"
                                      "ld v = x[t, 0..256]\n buf o dl16[4,256] x2\n sfp o = v * v + 0.5\n"
                                      "st x[t, 0..256] = o\n }");
  same_in_every_way(text);
}

}  // namespace
}  // namespace spyre::card
