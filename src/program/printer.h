// The writer behind print(); docs/tile_program_text.md is its grammar. Internal to this folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/conventions.h"
#include "program/tree.h"

namespace spyre::program {

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}
  std::string run();

 private:
  // ---- print.cc
  void kernel(const Kernel& kernel);
  void block(const Block& body, int indent);
  void line(int indent, const std::string& text);
  std::string buffer(Id id);
  std::string range(Id id) const;
  std::string condition(const Condition& condition) const;
  std::string loc_suffix(Id loc) const;

  // ---- print_access.cc
  /// level: 0 anything, 1 a term of a sum, 2 a factor. bare: names of ranges stand for their starts.
  std::string integer(const IntExpr& expr, int level = 0, bool bare = false) const;
  std::string bounds(const IntExpr& lo, const IntExpr& hi) const;
  std::string operand(const BufRef& ref) const;
  std::string position(const BufDim& dim, Id buffer) const;
  std::string access(const MemRef& ref, const Store* store) const;
  std::string entry(const Entry& entry) const;

  // ---- print_step.cc
  std::string step(const Step& step) const;
  std::string text(const Load& s) const;
  std::string text(const Store& s) const;
  std::string text(const MatMul& s) const;
  std::string text(const Vector& s) const;
  std::string text(const Reduce& s) const;
  std::string text(const Scan& s) const;
  std::string text(const Sort& s) const;
  std::string text(const GatherScatter& s) const;
  std::string text(const Move& s) const;
  std::string text(const Ring& s) const;
  std::string text(const PartialSum& s) const;
  std::string text(const Fence& s) const;
  std::string vector(const VecExpr& expr, int level = 0) const;

  const std::string& range_name(Id id) const { return kernel_->ranges[id].name; }
  const std::string& buffer_name(Id id) const { return kernel_->buffers[id].name; }
  const std::string& grid_name(Id id) const { return kernel_->nests[nest_].grid[id].name; }

  const Program& program_;
  const Kernel* kernel_ = nullptr;
  Id nest_ = 0;
  std::vector<Id> ranges_in_scope_;
  std::vector<Id> range_nest_;          ///< per range
  std::vector<size_t> declared_under_;  ///< per buffer: how many of ranges_in_scope_ there were
  std::string out_;
};

}  // namespace spyre::program
