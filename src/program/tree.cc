#include "program/tree.h"

namespace spyre::program {

int64_t Buffer::row_elements() const {
  const int64_t lanes = base::elements_per_stick(format);
  return (shape.back() + lanes - 1) / lanes * lanes;
}

int64_t Buffer::slot_bytes() const {
  int64_t bytes = row_elements() * base::format_bytes(format);
  for (size_t d = 0; d + 1 < shape.size(); ++d) bytes *= shape[d];
  return bytes;
}

int32_t Nest::cores() const {
  int32_t n = 1;
  for (const GridDim& d : grid) n *= d.size;
  return n;
}

Unit unit_of(const Step& step) {
  struct Visitor {
    Unit operator()(const Load&) const { return Unit::ld; }
    Unit operator()(const Store&) const { return Unit::st; }
    Unit operator()(const MatMul& m) const { return m.on_pt ? Unit::pt : Unit::sfp; }
    Unit operator()(const Vector&) const { return Unit::sfp; }
    Unit operator()(const Reduce&) const { return Unit::sfp; }
    Unit operator()(const Scan&) const { return Unit::sfp; }
    Unit operator()(const Sort&) const { return Unit::sfp; }
    Unit operator()(const GatherScatter&) const { return Unit::sfp; }
    Unit operator()(const Move&) const { return Unit::mv; }
    Unit operator()(const Ring&) const { return Unit::ring; }
    Unit operator()(const PartialSum&) const { return Unit::psum; }
    Unit operator()(const Fence&) const { return Unit::sync; }
  };
  return std::visit(Visitor{}, step.op);
}

Id collective_of(const Step& step) {
  if (const auto* load = std::get_if<Load>(&step.op)) return load->share;
  if (const auto* ring = std::get_if<Ring>(&step.op)) return ring->grid;
  if (const auto* sum = std::get_if<PartialSum>(&step.op)) return sum->grid;
  if (const auto* fence = std::get_if<Fence>(&step.op)) return fence->grid;
  return none;
}

}  // namespace spyre::program
