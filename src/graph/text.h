// Words of the graph's text form, shared by print.cc and parse.cc. README.md shows the form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace spyre::graph {

/// A name for every operation, usable as a function: "add", "floor_div", ...; cast and philox have their own forms.
std::string_view op_word(VecOp op);
std::optional<VecOp> op_from_word(std::string_view word);
std::string_view role_word(Contract::Role role);
std::optional<Contract::Role> role_from_word(std::string_view word);
std::string_view mode_word(Scatter::Mode mode);
std::optional<Scatter::Mode> mode_from_word(std::string_view word);
std::string_view outside_word(OnOutside outside);
std::optional<OnOutside> outside_from_word(std::string_view word);
/// "f16", "bf16", "b8", "i64", ...
std::string_view type_word(HostType type);
std::optional<HostType> type_from_word(std::string_view word);
/// The shortest text that reads back as this number, always with '.', 'e', "inf" or "nan".
std::string number_text(double number);

/// One expression, as print() writes it.
std::string print(const Expr& expr);
/// What a node does, without its results and its place in the source: equal texts, equal nodes.
std::string print(const Kind& kind);

}  // namespace spyre::graph
