#include "program/verify_enumerate.h"

#include <algorithm>
#include <bitset>

#include "layout/geometry.h"

namespace spyre::program::verifier {
namespace {

constexpr int64_t run_limit = 20000000;
constexpr int64_t stick_limit = int64_t{1} << 24;
constexpr int64_t lane_limit = int64_t{1} << 22;  // sticks whose lanes are followed one by one

class Enumerator {
 public:
  Enumerator(Context& context, Id formal, const std::string& reason)
      : c_(context), symbol_(context.kernel.formals[formal]), reason_(reason), access_(symbol_.view, symbol_.geometry) {
    lanes_ = base::elements_per_stick(symbol_.format);
    box_.start.resize(symbol_.view.sizes.size());
    box_.size = box_.step = box_.start;
  }

  Enumeration run(const std::vector<const Site*>& stores) {
    int64_t boxes = 0;
    for (const Site* site : stores) {
      int64_t n = 1;
      for (const GridDim& g : c_.kernel.nests[site->nest].grid) n = saturating_mul(n, g.size);
      for (Id r : site->ranges)
        if (!c_.kernel.ranges[r].is_core) n = saturating_mul(n, c_.ranges[r].max_trips);
      boxes += std::min(n, 2 * box_limit);
      if (boxes > box_limit) give_up(*site, "has more than 10^6 boxes");
    }
    if (symbol_.geometry.device_elements / lanes_ > stick_limit)
      give_up(*stores[0], "goes to a symbol of more than 2^24 sticks");
    owners_.assign(static_cast<size_t>(symbol_.geometry.device_elements / lanes_), {});
    const bool any_ordered = std::any_of(stores.begin(), stores.end(),
                                         [](const Site* site) { return std::get<Store>(site->step->op).ordered; });
    if (any_ordered && static_cast<int64_t>(owners_.size()) <= lane_limit) written_.assign(owners_.size(), {});
    result_.exact = true;
    for (const Site* site : stores) {
      site_ = site;
      ordered_ = std::get<Store>(site->step->op).ordered;
      sites_.push_back(site);
      const auto& grid = c_.kernel.nests[site->nest].grid;
      if (site->nest != c_.nest_id()) c_.revisit_nest(site->nest);
      int32_t cores = 1;
      for (const GridDim& g : grid) cores *= g.size;
      for (core_ = 0; core_ < cores; ++core_) {
        values_ = c_.leaves;
        int32_t rest = core_;
        for (size_t g = grid.size(); g-- > 0; rest /= grid[g].size)
          values_.coordinate[g] = Interval::point(rest % grid[g].size);
        walk(0);
      }
    }
    return result_;
  }

 private:
  struct Owner {
    int32_t instance = 0;  ///< 0: none
    int16_t core = 0, store = 0;
  };

  [[noreturn]] void give_up(const Site& site, const std::string& why) {
    c_.fail_at(
        *site.step,
        "its boxes are not proved to lie in different sticks: {}; and trying them one by one fails, because it {}",
        reason_, why);
  }

  void walk(size_t depth) {
    if (depth == site_->ranges.size()) return instance();
    const Id id = site_->ranges[depth];
    const Range& r = c_.kernel.ranges[id];
    if (r.is_core) {
      c_.leaf_values(id, values_);
      if (!values_.start[id].is_point())
        give_up(*site_, fmt::format("begins at {}, which depends on a scalar", r.name));
      if (!values_.size[id].is_point()) {
        result_.exact = false;
        values_.size[id] = Interval::point(values_.size[id].hi);
      }
      return walk(depth + 1);
    }
    const Interval lo = evaluate(r.lo, values_), hi = evaluate(r.hi, values_);
    if (!lo.is_point()) give_up(*site_, fmt::format("begins at {}, which depends on a scalar", r.name));
    if (!hi.is_point()) result_.exact = false;
    int64_t trips = ceil_div(std::max<int64_t>(0, hi.hi - lo.lo), r.by);
    for (int64_t t = 0; t < trips; ++t) {  // the extra trips of uniform loops write nothing: they are empty
      values_.trip[id] = Interval::point(t);
      values_.start[id] = Interval::point(lo.lo + t * r.by);
      values_.size[id] = Interval::point(std::min(r.by, hi.hi - lo.lo - t * r.by));
      walk(depth + 1);
    }
    const bool extra = r.uniform && c_.ranges[id].max_trips > trips;
    if (!extra) return;
    for (int64_t t = trips; t < c_.ranges[id].max_trips; ++t) {
      values_.trip[id] = Interval::point(t);
      values_.start[id] = Interval::point(lo.lo + t * r.by);
      values_.size[id] = Interval::point(0);
      walk(depth + 1);
    }
  }

  /// False when it certainly does not hold.
  bool may_hold(const Compare& compare) {
    const Interval a = evaluate(compare.a, values_), b = evaluate(compare.b, values_);
    bool may = true, must = true;
    switch (compare.op) {
      case Compare::Op::eq:
        may = a.lo <= b.hi && b.lo <= a.hi, must = a.is_point() && a == b;
        break;
      case Compare::Op::ne:
        may = !(a.is_point() && a == b), must = a.hi < b.lo || b.hi < a.lo;
        break;
      case Compare::Op::lt:
        may = a.lo < b.hi, must = a.hi < b.lo;
        break;
      case Compare::Op::le:
        may = a.lo <= b.hi, must = a.hi <= b.lo;
        break;
      case Compare::Op::gt:
        may = a.hi > b.lo, must = a.lo > b.hi;
        break;
      default:
        may = a.hi >= b.lo, must = a.lo >= b.hi;
        break;
    }
    if (may && !must) result_.exact = false;
    return may;
  }

  void instance() {
    for (const Condition* condition : site_->conditions)
      for (const Compare& compare : *condition)
        if (!may_hold(compare)) return;
    const Store& store = std::get<Store>(site_->step->op);
    int64_t count = 1;
    for (size_t d = 0; d < store.to.entries.size(); ++d) {
      const Entry& e = store.to.entries[d];
      const int64_t end = symbol_.view.sizes[d];
      int64_t first = 0, size = 0, step = 1;
      if (e.kind == Entry::Kind::affine) {
        const Interval base = evaluate(e.base, values_), extent = evaluate(e.extent, values_);
        if (!base.is_point()) give_up(*site_, "begins at an index that depends on a scalar");
        if (!extent.is_point()) result_.exact = false;
        step = e.step;
        const int64_t before = base.lo < 0 ? ceil_div(-base.lo, step) : 0;
        first = base.lo + before * step;
        size = std::min(extent.hi - before, first < end ? ceil_div(end - first, step) : 0);
      } else {
        result_.exact = false;
        first = std::max<int64_t>(0, evaluate(e.lo, values_).lo);
        size = std::min(end, evaluate(e.hi, values_).hi) - first;
      }
      if (static_cast<Id>(d) == store.where_entry) result_.exact = false;
      if (size <= 0) return;
      box_.start[d] = first;
      box_.size[d] = size;
      box_.step[d] = step;
      count *= size;
    }
    result_.elements += count;
    ++instance_;
    const int32_t lanes = static_cast<int32_t>(lanes_);
    access_.for_each_run(box_, [&](const layout::Run& run) {
      if (++runs_ > run_limit) give_up(*site_, "has too many sticks");
      claim(run.device_element / lanes);
      if (!written_.empty()) write(run.device_element / lanes, run.device_element % lanes, run.count);
    });
  }

  void claim(int64_t stick) {
    Owner& o = owners_[static_cast<size_t>(stick)];
    if (o.instance == instance_) return;
    if (o.instance != 0) {
      const Site& other = *sites_[o.store];
      const bool other_ordered = std::get<Store>(other.step->op).ordered;
      if (o.core != core_)
        c_.fail_at(*site_->step, "cores {} and {} both write stick {} of {}{}; give every core whole sticks", o.core,
                   core_, stick, symbol_.name, &other == site_ ? "" : ", the other one in " + c_.where(*other.step));
      if (!ordered_ || !other_ordered)
        c_.fail_at(*site_->step, "core {} writes stick {} of {} twice{}; write it once, or mark the stores ordered",
                   core_, stick, symbol_.name, &other == site_ ? "" : ", the other time in " + c_.where(*other.step));
      if (written_.empty()) result_.overlaps = true;
    }
    o.instance = instance_;
    o.core = static_cast<int16_t>(core_);
    o.store = static_cast<int16_t>(sites_.size() - 1);
  }

  /// Ordered stores share sticks; what is written once by them is still covered.
  void write(int64_t stick, int64_t lane, int64_t count) {
    std::bitset<max_lanes>& lanes = written_[static_cast<size_t>(stick)];
    for (int64_t i = lane; i < lane + count; ++i) {
      if (lanes[static_cast<size_t>(i)]) result_.overlaps = true;
      lanes[static_cast<size_t>(i)] = true;
    }
  }

  Context& c_;
  const Symbol& symbol_;
  const std::string& reason_;
  layout::Access access_;
  layout::Box box_;
  static constexpr size_t max_lanes = 128;  // of one byte each
  std::vector<Owner> owners_;
  std::vector<std::bitset<max_lanes>> written_;  // per stick, when some store is ordered
  std::vector<const Site*> sites_;
  LeafValues values_;
  Enumeration result_;
  const Site* site_ = nullptr;
  int64_t lanes_ = 1, runs_ = 0;
  int32_t core_ = 0, instance_ = 0;
  bool ordered_ = false;
};

}  // namespace

Enumeration enumerate_stores(Context& context, Id formal, const std::vector<const Site*>& stores,
                             const std::string& reason) {
  return Enumerator(context, formal, reason).run(stores);
}

}  // namespace spyre::program::verifier
