// Which elements of an allocation have been written: views are added, and asked for.
#pragma once

#include <map>
#include <vector>

#include "layout/view.h"

namespace spyre::program::verifier {

class Coverage {
 public:
  void add(const layout::HostView& view);
  /// True when all elements of the view are known to have been added. Never wrongly true. Exact, but for views of more
  /// than 10,000 contiguous parts, which are covered only by an equal view or by ones that leave no gap.
  bool covers(const layout::HostView& view) const;

 private:
  void add(int64_t first, int64_t end);
  bool covers(int64_t first, int64_t end) const;

  std::map<int64_t, int64_t> written_;        // storage elements: first -> one past the last, apart and not touching
  std::vector<layout::HostView> many_parts_;  // added views that were too long to be listed
};

}  // namespace spyre::program::verifier
