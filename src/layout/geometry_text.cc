#include <charconv>

#include "base/error.h"
#include "layout/geometry.h"

namespace spyre::layout {

std::string Geometry::to_text() const {
  std::string text = fmt::format("geo{{{} n={} d={}", base::format_name(format), storage_elements, device_elements);
  for (const Digit& d : digits) {
    text += fmt::format(" ({},{},{},{})*{}", d.div1, d.mod1, d.div2, d.mod2, d.stride);
  }
  return text + "}";
}

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), rest_(text) {}

  bool next_is(std::string_view word) const { return rest_.starts_with(word); }
  void expect(std::string_view word) {
    if (!next_is(word)) fail(Fault::program, "geometry \"{}\": expected \"{}\" at \"{}\"", text_, word, rest_);
    rest_.remove_prefix(word.size());
  }
  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail(Fault::program, "geometry \"{}\": expected a number at \"{}\"", text_, rest_);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  std::string_view word() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }
  void expect_end() const {
    if (!rest_.empty()) fail(Fault::program, "geometry \"{}\": \"{}\" after its end", text_, rest_);
  }

 private:
  std::string_view text_, rest_;
};

}  // namespace

Geometry Geometry::from_text(std::string_view text) {
  Reader in(text);
  Geometry g;
  in.expect("geo{");
  g.format = base::format_from_name(in.word());
  in.expect(" n=");
  g.storage_elements = in.number();
  in.expect(" d=");
  g.device_elements = in.number();
  while (in.next_is(" ")) {
    Digit d;
    in.expect(" (");
    d.div1 = in.number();
    in.expect(",");
    d.mod1 = in.number();
    in.expect(",");
    d.div2 = in.number();
    in.expect(",");
    d.mod2 = in.number();
    in.expect(")*");
    d.stride = in.number();
    g.digits.push_back(d);
  }
  in.expect("}");
  in.expect_end();
  g.check();
  return g;
}

}  // namespace spyre::layout
