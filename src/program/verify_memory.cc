// Device memory in one kernel: spans, stores that stay apart, loads that meet stores, and what is written completely.
#include <algorithm>
#include <map>
#include <optional>

#include "layout/geometry.h"
#include "program/verify_cells.h"
#include "program/verify_enumerate.h"
#include "program/verify_sticks.h"

namespace spyre::program::verifier {
namespace {

using Op = IntExpr::Op;
constexpr int64_t pair_limit = 200000;

std::string names(const Context& c, Id nest, const std::set<Variable>& variables) {
  std::string text;
  for (const Variable& v : variables)
    text += (text.empty() ? "" : ", ") +
            (v.loop ? "loop " + c.range_name(v.id) : "coordinate " + c.kernel.nests[nest].grid[v.id].name);
  return text;
}

class Memory {
 public:
  explicit Memory(Context& context) : c_(context) {}

  std::vector<bool> run() {
    std::vector<bool> complete(c_.kernel.formals.size(), false);
    std::vector<std::vector<const Site*>> loads(complete.size()), stores(complete.size());
    for (const Site& site : c_.sites)
      if (const MemRef* m = memory_of(*site.step))
        (std::holds_alternative<Store>(site.step->op) ? stores : loads)[m->symbol].push_back(&site);
    for (size_t f = 0; f < complete.size(); ++f) {
      formal_ = static_cast<Id>(f);
      check_spans(loads[f], stores[f]);
      if (c_.kernel.formals[f].direction == Direction::temp && stores[f].empty() && !loads[f].empty())
        c_.fail_at(*loads[f][0]->step, "temp {} is never written", c_.formal_name(formal_));
      if (stores[f].empty()) continue;
      complete[f] = check_symbol_use(loads[f], stores[f]);
      if (c_.kernel.formals[f].direction == Direction::temp && !loads[f].empty() && !complete[f])
        c_.fail_at(*loads[f][0]->step, "temp {} is read, but its stores are not proved to write all of it",
                   c_.formal_name(formal_));
    }
    return complete;
  }

 private:
  const Symbol& symbol() const { return c_.kernel.formals[formal_]; }

  AccessCells cells(const Site& site) {
    if (site.nest != c_.nest_id()) c_.revisit_nest(site.nest);
    return cells_of(c_, site, sticks_);
  }

  // ---- spans: all that one core reaches of one symbol
  // -----------------------------------------------------------------

  void check_spans(const std::vector<const Site*>& loads, const std::vector<const Site*>& stores) {
    if (symbol().geometry.device_bytes() <= c_.description.span_bytes_per_core) return;
    const layout::Access access(symbol().view, symbol().geometry);
    std::map<int64_t, std::pair<int64_t, int64_t>> reach;  // by core, device elements
    std::vector<const Site*> sites = loads;
    sites.insert(sites.end(), stores.begin(), stores.end());
    for (const Site* site : sites) {
      if (site->nest != c_.nest_id()) c_.revisit_nest(site->nest);
      const auto& grid = c_.kernel.nests[site->nest].grid;
      int64_t cores = 1;
      for (const GridDim& g : grid) cores *= g.size;
      if ((spans_ += cores) > pair_limit)
        c_.fail_at(*site->step, "too many accesses to symbols of more than {} bytes",
                   c_.description.span_bytes_per_core);
      for (int64_t core = 0; core < cores; ++core) {
        LeafValues values = c_.leaves;
        int64_t rest = core;
        for (size_t g = grid.size(); g-- > 0; rest /= grid[g].size)
          values.coordinate[g] = Interval::point(rest % grid[g].size);
        for (Id r : site->ranges) c_.leaf_values(r, values);
        const auto box = hull_box(*memory_of(*site->step), values);
        if (!box) continue;
        const auto [first, last] = access.device_extent(*box);
        if (first == last) continue;
        auto [it, added] = reach.try_emplace(core, first, last);
        if (!added) it->second = {std::min(it->second.first, first), std::max(it->second.second, last)};
        const int64_t bytes = (it->second.second - it->second.first) * base::format_bytes(symbol().format);
        if (bytes > c_.description.span_bytes_per_core)
          c_.fail_at(*site->step,
                     "core {} reaches a span of {} bytes of {}; at most {} are possible, so divide it between cores",
                     core, bytes, symbol().name, c_.description.span_bytes_per_core);
      }
    }
  }

  std::optional<layout::Box> hull_box(const MemRef& ref, const LeafValues& values) const {
    layout::Box box;
    for (size_t d = 0; d < ref.entries.size(); ++d) {
      const Entry& e = ref.entries[d];
      int64_t first = 0, end = 0;
      if (e.kind == Entry::Kind::affine) {
        const Affine base = Affine::of(e.base), size = Affine::of(e.extent);
        const Id nonempty = range_of_size(e.extent);
        if (c_.bounds(size, none, values).hi <= 0) return std::nullopt;
        first = c_.bounds(base, nonempty, values).lo;
        end = c_.bounds(base.plus(size, e.step), nonempty, values).hi;
      } else {
        first = evaluate(e.lo, values).lo;
        end = evaluate(e.hi, values).hi;
      }
      first = std::max<int64_t>(first, 0);
      end = std::min(end, symbol().view.sizes[d]);
      if (end <= first) return std::nullopt;
      box.start.push_back(first);
      box.size.push_back(end - first);
    }
    return box;
  }

  // ---- stores
  // -----------------------------------------------------------------------------------------------------------

  /// Returns whether the stores together write all of the view.
  bool check_symbol_use(const std::vector<const Site*>& loads, const std::vector<const Site*>& stores) {
    if (layout::writes_overlap(symbol().view))
      c_.fail_at(*stores[0]->step, "{} is stored through a view in which two indices mean one element", symbol().name);
    sticks_ = stick_shape(symbol().view, symbol().geometry);
    std::vector<AccessCells> all;
    for (const Site* s : stores) all.push_back(cells(*s));
    std::string reason;
    for (const AccessCells& a : all) {
      check_indirect(a);
      const std::string why = store_alone(a);
      if (reason.empty()) reason = why;
    }
    spend(static_cast<int64_t>(stores.size()) * static_cast<int64_t>(stores.size()), *stores[0]->step);
    for (size_t i = 0; reason.empty() && i < all.size(); ++i)
      for (size_t j = 0; reason.empty() && j < i; ++j) reason = store_pair(all[j], all[i]);
    bool complete = false;
    if (reason.empty()) {
      complete = covered(all);
    } else {
      for (const AccessCells& a : all) {  // what the values of indices decide can't be tried
        if (std::get<Store>(a.site->step->op).where_entry != none)
          c_.fail_at(*a.site->step, "its boxes are not proved to lie in different sticks: {}", reason);
      }
      const Enumeration e = enumerate_stores(c_, formal_, stores, reason);
      complete = e.exact && !e.overlaps && e.elements == symbol().view.numel();
    }
    check_hazards(loads, all);
    return complete;
  }

  /// An indirect store can meet itself: only the order decides.
  void check_indirect(const AccessCells& a) const {
    const Store& s = std::get<Store>(a.site->step->op);
    for (const Entry& e : s.to.entries)
      if (e.kind == Entry::Kind::indexed && !s.ordered)
        c_.fail_at(*a.site->step, "an indirect store must be ordered: two of its indices may be equal");
  }

  /// Variables that keep the instances of one store apart.
  std::set<Variable> apart_alone(const AccessCells& a) {
    std::set<Variable> found = apart(c_, a, a, sticks_);
    const auto* s = std::get_if<Store>(&a.site->step->op);
    if (!s || s->where_entry == none || !owner_form(a, *s)) return found;
    // Rows go to the one owner of their index: a further dimension.
    IntExpr size = IntExpr::binary(Op::sub, s->where_hi, s->where_lo);
    const Affine length = Affine::of(size);
    if (length.terms.size() == 1 && length.is_leaf(Op::size, length.terms[0].atom.id))
      size = IntExpr(length.terms[0].atom);
    if (c_.bounds(length).lo < 0) return found;
    const DimCells owner = dim_cells(c_, s->where_lo, size, 1, 1);
    std::set<Variable> common = a.variables;
    common.insert(a.fixed.begin(), a.fixed.end());
    found.merge(apart_in(c_, a.site->nest, owner, owner, true, common, 1, 0));
    return found;
  }

  /// `st y[t where ix in v]` with ix = ids[t] on every core: each row of y has one index, which lies in one v.
  bool owner_form(const AccessCells& a, const Store& s) const {
    if (!sticks_.known || s.where_entry == sticks_.lane_dim || !s.where_index.box.empty()) return false;
    const auto& writers = c_.writers[s.where_index.buffer];
    if (writers.size() != 1) return false;
    const Site& site = c_.sites[writers[0]];
    const auto* load = std::get_if<Load>(&site.step->op);
    if (!load || !load->to.box.empty() || site.nest != a.site->nest || !site.conditions.empty()) return false;
    if (c_.kernel.formals[load->from.symbol].direction != Direction::in) return false;
    const Entry& row = s.to.entries[s.where_entry];
    for (size_t e = 0; e < load->from.entries.size(); ++e) {
      const Entry& entry = load->from.entries[e];
      if (entry.kind != Entry::Kind::affine) return false;
      const bool last = e + 1 == load->from.entries.size();
      if (last ? entry.base != row.base || entry.step != row.step || entry.extent != row.extent
               : !entry.base.is_constant() || !entry.extent.is_constant(1))
        return false;
    }
    return true;
  }

  /// Why the instances of one store are not proved to be apart, or nothing.
  std::string store_alone(const AccessCells& a) {
    if (!sticks_.known)
      return fmt::format("the elements of {} do not follow sticks along one dimension of its view", symbol().name);
    std::set<Variable> open = a.variables;
    for (const Variable& v : apart_alone(a)) open.erase(v);
    if (std::get<Store>(a.site->step->op).ordered) std::erase_if(open, [](const Variable& v) { return v.loop; });
    if (open.empty()) return "";
    return fmt::format("boxes that differ in {} may meet", names(c_, a.site->nest, open));
  }

  std::string store_pair(const AccessCells& a, const AccessCells& b) {
    if (hulls_apart(a, b, sticks_)) return "";
    const bool ordered = std::get<Store>(a.site->step->op).ordered && std::get<Store>(b.site->step->op).ordered;
    if (ordered && open_coordinates(a, b).empty()) return "";
    return fmt::format("{} stores to it too", c_.where(*a.site->step));
  }

  /// Coordinates in which a and b may differ and still meet.
  std::set<Variable> open_coordinates(const AccessCells& a, const AccessCells& b) {
    if (a.site->nest != c_.nest_id()) c_.revisit_nest(a.site->nest);
    std::set<Variable> open;
    for (const AccessCells* x : {&a, &b})
      for (size_t g = 0; g < c_.kernel.nests[x->site->nest].grid.size(); ++g)
        if (c_.kernel.nests[x->site->nest].grid[g].size > 1) open.insert({false, static_cast<Id>(g)});
    for (const Variable& v : apart(c_, a, b, sticks_)) open.erase(v);
    for (const Variable& v : a.fixed)  // both on the cores with one value
      if (!v.loop && b.fixed.count(v) && a.site->conditions == b.site->conditions) open.erase(v);
    return open;
  }

  // ---- loads that meet stores
  // -----------------------------------------------------------------------------------------

  void spend(int64_t pairs, const Step& step) {
    if ((pairs_ += pairs) > pair_limit)
      c_.fail_at(step, "too many loads and stores of {} in one kernel", symbol().name);
  }

  void check_hazards(const std::vector<const Site*>& loads, const std::vector<AccessCells>& stores) {
    if (loads.empty()) return;
    spend(static_cast<int64_t>(loads.size()) * static_cast<int64_t>(stores.size()), *loads[0]->step);
    for (const Site* site : loads) {
      const AccessCells load = cells(*site);
      for (const AccessCells& store : stores) check_hazard(load, store);
    }
  }

  void check_hazard(const AccessCells& load, const AccessCells& store) {
    if (hulls_apart(load, store, sticks_)) return;
    const Site &l = *load.site, &s = *store.site;
    if (symbol().direction == Direction::temp && s.order > l.order)
      c_.fail_at(*l.step, "temp {} is read before {} writes it", symbol().name, c_.where(*s.step));
    if (in_place(load, store)) return;
    const auto open = open_coordinates(load, store);
    const Site &first = l.order < s.order ? l : s, &second = l.order < s.order ? s : l;
    const auto between = fences_between(first, second);
    if (!enough(between, first, second, open)) hazard(l, s, open, false);
    // Loops around both: the end of one trip against the begin of the next.
    const auto kept = apart(c_, load, store, sticks_);
    size_t common = 0;
    while (common < first.path.size() && common < second.path.size() && first.path[common] == second.path[common])
      ++common;
    bool again = false;
    for (Id r : first.ranges) {
      const bool both = std::find(second.ranges.begin(), second.ranges.end(), r) != second.ranges.end();
      again = again || (both && !c_.kernel.ranges[r].is_core && c_.ranges[r].max_trips > 1 && !kept.count({true, r}));
    }
    if (again && !enough(fences_around(first, second), first, second, open)) hazard(l, s, open, true);
  }

  [[noreturn]] void hazard(const Site& l, const Site& s, const std::set<Variable>& open, bool loop) {
    const std::string what = open.empty()       ? "a fence"
                             : l.nest != s.nest ? "a barrier over all cores"
                                                : "a barrier over " + names(c_, l.nest, open);
    c_.fail_at(
        *l.step, "it may meet {} of {} in memory: {} is needed between them{}, or both must be the same box in place",
        c_.where(*s.step), symbol().name, what, loop ? ", also from the end of one trip to the begin of the next" : "");
  }

  /// The same box in the same iteration, loaded first and feeding the store, and apart from the boxes of all other
  /// instances.
  bool in_place(const AccessCells& load, const AccessCells& store) {
    const Site &l = *load.site, &s = *store.site;
    if (l.nest != s.nest || l.order > s.order || l.ranges != s.ranges || l.conditions != s.conditions) return false;
    const Store& st = std::get<Store>(s.step->op);
    if (st.where_entry != none) return false;
    for (size_t e = 0; e < load.ref->entries.size(); ++e) {
      const Entry &x = load.ref->entries[e], &y = store.ref->entries[e];
      if (x.kind != Entry::Kind::affine || y.kind != Entry::Kind::affine || x.step != y.step) return false;
      if (!Affine::of(x.base).equals(Affine::of(y.base)) || !Affine::of(x.extent).equals(Affine::of(y.extent)))
        return false;
    }
    if (l.nest != c_.nest_id()) c_.revisit_nest(l.nest);
    const auto kept = apart(c_, store, store, sticks_);
    for (const Variable& v : store.variables)
      if (!kept.count(v)) return false;
    return feeds(l, s);
  }

  /// By buffers that each step on the way reads or writes.
  bool feeds(const Site& from, const Site& to) {
    std::vector<const BufRef*> reached;
    for (const Use& u : uses_of(*from.step))
      if (u.writes) reached.push_back(u.ref);
    auto meets = [&](const BufRef& ref) {
      return std::any_of(reached.begin(), reached.end(), [&](const BufRef* r) {
        if (r->buffer != ref.buffer) return false;
        return c_.kernel.buffers[ref.buffer].piece_dim == -1 || r->box == ref.box;  // pieces are waited for one by one
      });
    };
    for (int i = from.order + 1; i <= to.order; ++i) {
      spend(1, *from.step);
      const auto uses = uses_of(*c_.sites[i].step);
      if (!std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return meets(*u.ref); })) continue;
      if (i == to.order) return true;
      // A step that may not run every time passes nothing on.
      if (c_.sites[i].conditions != to.conditions) continue;
      for (const Use& u : uses)
        if (u.writes && reached.size() < 1000) reached.push_back(u.ref);
    }
    return false;
  }

  // ---- fences
  // -----------------------------------------------------------------------------------------------------------

  using Fences = std::vector<std::pair<Id, Id>>;  // nest, grid dimension or none

  static void collect(const Block& block, int first, int last, Id nest, Fences& out) {
    for (int i = std::max(0, first); i < last && i < static_cast<int>(block.size()); ++i)
      if (const auto* step = std::get_if<Step>(&block[i].node))
        if (const auto* fence = std::get_if<Fence>(&step->op)) out.emplace_back(nest, fence->grid);
  }
  /// Fences that always run after `site` (before `level` is left), or before it.
  static void after(const Site& site, size_t level, Fences& out) {
    for (size_t i = level; i < site.path.size(); ++i)
      collect(*site.path[i].first, site.path[i].second + 1, INT32_MAX, site.nest, out);
  }
  static void before(const Site& site, size_t level, Fences& out) {
    for (size_t i = level; i < site.path.size(); ++i)
      collect(*site.path[i].first, 0, site.path[i].second, site.nest, out);
  }

  Fences fences_between(const Site& a, const Site& b) const {
    Fences found;
    if (a.nest != b.nest) {
      after(a, 0, found);
      before(b, 0, found);
      for (Id n = a.nest + 1; n < b.nest; ++n) collect(c_.kernel.nests[n].body, 0, INT32_MAX, n, found);
      return found;
    }
    size_t common = 0;
    while (common < a.path.size() && common < b.path.size() && a.path[common] == b.path[common]) ++common;
    if (common >= a.path.size() || common >= b.path.size()) return found;
    collect(*a.path[common].first, a.path[common].second + 1, b.path[common].second, a.nest, found);
    after(a, common + 1, found);
    before(b, common + 1, found);
    return found;
  }

  /// From the end of b, once around the innermost loop that holds both, to a.
  Fences fences_around(const Site& a, const Site& b) const {
    Fences found;
    size_t common = 0;
    while (common < a.path.size() && common < b.path.size() && a.path[common] == b.path[common]) ++common;
    size_t level = std::min({common, a.path.size() - 1, b.path.size() - 1});
    while (level > 0) {  // the block of the innermost common loop
      const auto& [block, at] = a.path[level - 1];
      if (std::holds_alternative<For>((*block)[at].node)) break;
      --level;
    }
    after(b, level, found);
    before(a, level, found);
    return found;
  }

  int64_t cores_of(Id nest) const {
    int64_t n = 1;
    for (const GridDim& g : c_.kernel.nests[nest].grid) n *= g.size;
    return n;
  }

  bool enough(const Fences& fences, const Site& a, const Site& b, const std::set<Variable>& open) const {
    if (fences.empty()) return false;
    if (open.empty()) return true;
    std::map<Id, std::set<Id>> barriers;
    for (const auto& [nest, grid] : fences)
      if (grid != none) barriers[nest].insert(grid);
    for (const auto& [nest, dims] : barriers) {
      if (cores_of(nest) < std::max(cores_of(a.nest), cores_of(b.nest))) continue;
      bool all = true;
      const auto& grid = c_.kernel.nests[nest].grid;
      for (size_t g = 0; g < grid.size(); ++g) {
        const bool needed =
            nest == a.nest && a.nest == b.nest ? open.count({false, static_cast<Id>(g)}) > 0 : grid[g].size > 1;
        all = all && (!needed || dims.count(static_cast<Id>(g)));
      }
      if (all) return true;
    }
    return false;
  }

  // ---- coverage
  // -----------------------------------------------------------------------------------------------------------

  struct Covered {
    std::vector<Interval> box;  ///< smallest and one past the largest index, clipped to the view
  };

  /// The box that the instances of one store fill without a gap, if they do.
  std::optional<Covered> filled(const AccessCells& a) {
    const Site& site = *a.site;
    const Store& s = std::get<Store>(site.step->op);
    if (site.nest != c_.nest_id()) c_.revisit_nest(site.nest);
    if (s.where_entry != none) return std::nullopt;
    Covered covered;
    std::set<Variable> used;
    for (size_t d = 0; d < s.to.entries.size(); ++d) {
      const Entry& e = s.to.entries[d];
      if (e.kind != Entry::Kind::affine || e.step != 1) return std::nullopt;
      Interval all;
      Id r = range_of_size(e.extent);
      const Affine base = Affine::of(e.base);
      if (r == none && e.extent.is_constant(1) && base.terms.size() == 1 && base.terms[0].atom.op == Op::start &&
          c_.kernel.ranges[base.terms[0].atom.id].by == 1)
        r = base.terms[0].atom.id;
      if (r == none) {
        if (!base.is_constant() || !e.extent.is_constant()) return std::nullopt;
        all = {base.constant, base.constant + e.extent.value};
      } else {
        if (e.extent.op == Op::min) return std::nullopt;
        const Affine shift = base.minus(Affine::of(IntExpr::leaf(Op::start, r)));
        if (!shift.is_constant()) return std::nullopt;
        for (;; r = c_.kernel.ranges[r].parent) {
          const Range& range = c_.kernel.ranges[r];
          used.insert(range.is_core ? Variable{false, range.grid} : Variable{true, r});
          const int64_t length = c_.bounds(c_.ranges[r].hi.minus(c_.ranges[r].lo)).hi;
          if (range.is_core && saturating_mul(range.by, c_.kernel.nests[site.nest].grid[range.grid].size) < length)
            return std::nullopt;
          if (range.parent == none) break;
        }
        const RangeFacts& root = c_.ranges[r];
        if (!root.lo.is_constant() || !root.hi.is_constant()) return std::nullopt;
        all = {root.lo.constant + shift.constant, root.hi.constant + shift.constant};
      }
      all = {std::max<int64_t>(all.lo, 0), std::min(all.hi, symbol().view.sizes[d])};
      if (all.lo > all.hi) return std::nullopt;
      covered.box.push_back(all);
    }
    // Whatever else decides whether it runs must let it run once for every box.
    std::map<Variable, int> users;
    for (const Variable& v : a.fixed)
      if (used.count(v)) return std::nullopt;
    for (const Condition* condition : site.conditions)
      for (const Compare& compare : *condition) {
        const Affine difference = Affine::of(compare.a).minus(Affine::of(compare.b));
        bool right = false;
        if (compare.op == Compare::Op::eq && difference.terms.size() == 1 &&
            std::abs(difference.terms[0].coefficient) == 1) {
          const IntExpr& leaf = difference.terms[0].atom;
          const int64_t value = -difference.constant * difference.terms[0].coefficient;
          if (leaf.op == Op::coordinate) right = value >= 0 && value < c_.kernel.nests[site.nest].grid[leaf.id].size;
          if (leaf.op == Op::trip) right = value == 0;
        } else {
          for (const Variable& v : a.fixed)
            if (v.loop && c_.ranges[v.id].min_trips >= 1) {
              const Affine last = Affine::of(IntExpr::leaf(Op::start, v.id))
                                      .plus(Affine::of(c_.kernel.ranges[v.id].by))
                                      .minus(c_.ranges[v.id].hi);
              right = right || (compare.op == Compare::Op::ge && difference.equals(last));
            }
        }
        if (!right) return std::nullopt;
      }
    for (Id r : site.ranges)
      if (!c_.kernel.ranges[r].is_core && !used.count({true, r}) && c_.ranges[r].min_trips < 1) return std::nullopt;
    // One coordinate or loop may cut one dimension only, else boxes off the diagonal are missing.
    for (size_t d = 0; d < s.to.entries.size(); ++d) {
      const Entry& e = s.to.entries[d];
      Id r = range_of_size(e.extent);
      if (r == none && !Affine::of(e.base).terms.empty()) r = Affine::of(e.base).terms[0].atom.id;
      for (; r != none; r = c_.kernel.ranges[r].parent) {
        const Range& range = c_.kernel.ranges[r];
        const Variable v = range.is_core ? Variable{false, range.grid} : Variable{true, r};
        if (count_of(c_, site.nest, v) > 1 && ++users[v] > 1) return std::nullopt;
      }
    }
    return covered;
  }

  bool covered(const std::vector<AccessCells>& stores) {
    std::vector<Covered> boxes;
    for (const AccessCells& a : stores) {
      auto box = filled(a);
      if (box) boxes.push_back(std::move(*box));
    }
    int64_t sum = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      int64_t volume = 1;
      for (const Interval& d : boxes[i].box) volume *= d.hi - d.lo;  // at most the view's elements
      if (volume == symbol().view.numel()) return true;
      for (size_t j = 0; j < i; ++j) {
        bool apart = false;
        for (size_t d = 0; d < boxes[i].box.size(); ++d)
          apart = apart || boxes[i].box[d].hi <= boxes[j].box[d].lo || boxes[j].box[d].hi <= boxes[i].box[d].lo;
        if (!apart) return false;
      }
      sum += volume;
    }
    return sum == symbol().view.numel();
  }

  Context& c_;
  Id formal_ = none;
  StickShape sticks_;
  int64_t pairs_ = 0, spans_ = 0;
};

}  // namespace

std::vector<bool> check_memory(Context& context) { return Memory(context).run(); }

}  // namespace spyre::program::verifier
