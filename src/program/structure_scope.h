// The walk behind check_structure(): one kernel, with what is in scope. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "program/tree.h"

namespace spyre::program {

class StructureScope {
 public:
  StructureScope(const Program& program, const Kernel& kernel);
  void run();

 private:
  // ---- structure.cc
  [[noreturn]] void refuse(const std::string& what) const;
  void declare(std::string_view name);
  void leave(size_t names, size_t ranges, size_t buffers);
  void enter_buffer(Id id);
  void enter_range(Id id, bool is_core);
  void block(const Block& body, int depth);

  // ---- structure_steps.cc
  void check_range(Id id) const;
  void check_grid(Id id) const;
  void integer(const IntExpr& expr, int depth = 1) const;
  void operand(const BufRef& ref, bool may_transpose = false) const;
  void optional_operand(const BufRef& ref) const;
  void access(const MemRef& ref, Id where) const;
  void vector(const VecExpr& expr, int depth, int64_t& nodes) const;
  void value(const VecExpr& expr, Reg want, bool to_buffer) const;
  Reg register_of_buffer(const BufRef& ref) const;
  void step(const Step& step) const;
  void check(const Load& s) const;
  void check(const Store& s) const;
  void check(const MatMul& s) const;
  void check(const Vector& s) const;
  void check(const Reduce& s) const;
  void check(const Scan& s) const;
  void check(const Sort& s) const;
  void check(const GatherScatter& s) const;
  void check(const Move& s) const;
  void check(const Ring& s) const;
  void check(const PartialSum& s) const;
  void check(const Fence& s) const;

  const Program& program_;
  const Kernel& kernel_;
  const Step* step_ = nullptr;
  int64_t steps_ = 0;
  Id nest_ = none;
  Id next_range_ = 0, next_buffer_ = 0;
  std::vector<bool> range_in_scope_, buffer_in_scope_;
  std::vector<Id> range_nest_;
  std::vector<Id> range_stack_, buffer_stack_;
  std::vector<std::string_view> declared_;
  std::unordered_set<std::string_view> names_, core_names_;
};

}  // namespace spyre::program
