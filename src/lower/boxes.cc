#include "lower/boxes.h"

#include <algorithm>

#include "lower/operands.h"
#include "program/vector_rules.h"

namespace spyre::lower {

namespace {

constexpr size_t most_parts = 96;  // of one kernel: the verifier compares every pair

bool stepped(const BoxPart& part) {
  for (size_t d = 0; d < part.sizes.size(); ++d) {
    if (part.step[d] != 1 && part.sizes[d] > 1) return true;
  }
  return false;
}

bool empty(const BoxPart& part) {
  return std::any_of(part.sizes.begin(), part.sizes.end(), [](int64_t s) { return s == 0; });
}

/// The part from `first` on, `size` indices long, along dimension d.
BoxPart cut(BoxPart part, size_t d, int64_t first, int64_t size) {
  part.start[d] += first;
  part.sizes[d] = size;
  if (part.from) {
    part.from->view.offset += first * part.from->view.strides[d];
    part.from->view.sizes[d] = size;
  }
  return part;
}

/// What is left of a part outside of a box, appended to `out`.
void subtract(BoxPart part, const BoxPart& box, std::vector<BoxPart>& out) {
  for (size_t d = 0; d < part.sizes.size(); ++d) {
    const int64_t lo = std::max(part.start[d], box.start[d]);
    const int64_t hi = std::min(part.start[d] + part.sizes[d], box.start[d] + box.sizes[d]);
    if (lo >= hi) {
      out.push_back(std::move(part));
      return;
    }
  }
  for (size_t d = 0; d < part.sizes.size(); ++d) {
    const int64_t before = box.start[d] - part.start[d];
    if (before > 0) {
      out.push_back(cut(part, d, 0, before));
      part = cut(std::move(part), d, before, part.sizes[d] - before);
    }
    const int64_t inside = box.start[d] + box.sizes[d] - part.start[d];
    if (inside < part.sizes[d]) {
      out.push_back(cut(part, d, inside, part.sizes[d] - inside));
      part = cut(std::move(part), d, 0, inside);
    }
  }
}

}  // namespace

std::vector<std::vector<BoxPart>> painted(const std::vector<BoxPart>& parts) {
  std::vector<std::vector<BoxPart>> layers;
  bool open = false;  // boxes may still be painted into the last layer
  for (const BoxPart& part : parts) {
    if (empty(part)) continue;
    const bool alone = stepped(part);
    if (!open || alone || layers.back().size() >= most_parts) {
      layers.push_back({part});
      open = !alone;
      continue;
    }
    std::vector<BoxPart> next;
    for (BoxPart& below : layers.back()) subtract(std::move(below), part, next);
    next.push_back(part);
    layers.back() = std::move(next);
  }
  return layers;
}

Emitted write_boxes(const Context& context, const program::Loc& loc, const Placed& to,
                    const std::vector<BoxPart>& parts, const BoxShares& shares) {
  const std::vector<size_t> order = lanes_last(to.view, to.geometry);
  const size_t rank = std::max<size_t>(1, order.size());
  Placed result = to;
  result.view = permuted(to.view, order);
  const auto picked = [&](const std::vector<int64_t>& numbers, int64_t scalar) {
    std::vector<int64_t> out;
    for (const size_t d : order) out.push_back(numbers[d]);
    if (out.empty()) out.push_back(scalar);
    return out;
  };
  Shares box_shares{shares.rows, shares.lanes, shares.tile_bytes, std::vector<bool>(rank, true), {}};
  int32_t cores = 1;
  std::vector<Division> divisions;
  for (size_t d = 0; shares.shared && d < order.size(); ++d) {
    for (const BoxPart& part : parts) {
      if (part.start[order[d]] != 0 || part.sizes[order[d]] != result.view.sizes[d] || stepped(part)) {
        box_shares.divisible[d] = false;
      }
    }
  }
  for (const BoxPart& part : parts) {
    divisions.push_back(divide(picked(part.sizes, 1), result.format, box_shares));
    cores = std::max(cores, divisions.back().cores());
  }

  Writer w(loc.op, cores, loc);
  const Id target = w.formal(context, result, program::Direction::out);
  for (size_t p = 0; p < parts.size(); ++p) {
    const BoxPart& part = parts[p];
    const std::vector<int64_t> sizes = picked(part.sizes, 1), first = picked(part.start, 0),
                               step = picked(part.step, 1);
    const Division& division = divisions[p];
    if (p == 0 || !shares.shared) w.builder.nest(division.grid());
    const int64_t lane_first =
        first.back() + (result.view.strides.back() ? result.view.offset / result.view.strides.back() : 0);
    const bool aligned = step.back() == 1 && lane_first % base::elements_per_stick(result.format) == 0;
    const auto targets = [&](const TileWalk& walk) {
      std::vector<Entry> entries;
      for (size_t d = 0; d < rank; ++d) entries.push_back(walk.entry(d, first[d], step[d]));
      return entries;
    };
    if (part.from) {
      Placed from = *part.from;
      from.view = permuted(from.view, order);
      const Id source = w.formal(context, from, program::Direction::in);
      for_each_tile(w.builder, sizes, division, context.description.max_trips, [&](const TileWalk& walk) {
        Id tile = w.builder.buffer(from.format, walk.tile, 2, "t");
        w.builder.load(w.builder.ref(tile), source, walk.entries());
        if (from.format != result.format) {
          const Id rounded = w.builder.buffer(result.format, walk.tile, 2, "o");
          w.builder.vector({w.builder.ref(rounded)}, {wrapped(w.builder.use(w.builder.ref(tile)), part.type)});
          tile = rounded;
        }
        w.builder.store(target, targets(walk), w.builder.ref(tile), shares.shared || !aligned);
      });
    } else {
      const Id tile = w.builder.buffer(result.format, division.tile, 1, "t");
      const bool is_float = program::register_of(result.format) == program::Reg::f32;
      w.builder.vector({w.builder.ref(tile)},
                       {is_float ? number(part.fill) : integer(static_cast<int64_t>(part.fill))});
      for_each_tile(w.builder, sizes, division, context.description.max_trips, [&](const TileWalk& walk) {
        w.builder.store(target, targets(walk), w.builder.ref(tile), shares.shared || !aligned);
      });
    }
  }
  return w.finish();
}

BoxPart whole_copy(const Placed& to, const Placed& from) {
  const size_t rank = to.view.sizes.size();
  return {from, base::HostType::f32, 0, std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1), to.view.sizes};
}

BoxPart whole_fill(const Placed& to, double fill) {
  const size_t rank = to.view.sizes.size();
  return {std::nullopt, base::HostType::f32, fill, std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1),
          to.view.sizes};
}

}  // namespace spyre::lower
