// The words of the tile program's text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spyre::program {

struct Token {
  enum class Kind : uint8_t {
    name,      ///< letters, digits, _
    integer,   ///< 123
    number,    ///< 1.5, 2e-3
    string,    ///< "..." with \" \\ \n \t \xNN
    geometry,  ///< geo{...}, as it stands
    symbol,    ///< punctuation
    end,
  };
  Kind kind = Kind::end;
  std::string_view text;  ///< into the assembled text; of a string without its quotes, escapes not yet replaced
  int line = 1, column = 1;
  uint64_t integer = 0;
  double number = 0;

  bool is(std::string_view word) const { return (kind == Kind::name || kind == Kind::symbol) && text == word; }
};

/// Splits the text; the last token has kind `end`. Throws Error(program) "line:column: ..." for a character, number or
/// string that is none.
std::vector<Token> lex(std::string_view text);

/// The characters a string token stands for, and the string token of characters (with quotes).
std::string unescape(const Token& token);
std::string escape(std::string_view characters);

template <typename... Args>
[[noreturn]] void fail_at(const Token& token, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Fault::program,
              fmt::format("{}:{}: {}", token.line, token.column, fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace spyre::program
