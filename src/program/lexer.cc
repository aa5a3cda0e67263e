#include "program/lexer.h"

#include <array>
#include <charconv>

namespace spyre::program {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr std::array<std::string_view, 28> symbols = {"..+", "..", "+=", "==", "!=", "<=", ">=", "(", ")", "{",
                                                      "}",   "[",  "]",  ",",  ";",  ":",  "?",  "=", "<", ">",
                                                      "+",   "-",  "*",  "/",  "^",  ".",  "@",  "!"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      skip_blanks();
      Token token = at_here();
      if (position_ == text_.size()) {
        tokens.push_back(token);
        return tokens;
      }
      const char c = text_[position_];
      if (is_letter(c)) {
        name(token);
      } else if (is_digit(c)) {
        number(token);
      } else if (c == '"') {
        string(token);
      } else {
        symbol(token);
      }
      column_ += static_cast<int>(position_ - start_);
      tokens.push_back(token);
    }
  }

 private:
  Token at_here() {
    start_ = position_;
    Token token;
    token.line = line_;
    token.column = column_;
    return token;
  }

  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  void skip_blanks() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '#') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == '\n') {
        ++position_;
        ++line_;
        column_ = 1;
      } else if (is_space(c)) {
        ++position_;
        ++column_;
      } else {
        return;
      }
    }
  }

  void name(Token& token) {
    while (is_letter(peek()) || is_digit(peek())) ++position_;
    token.kind = Token::Kind::name;
    token.text = text_.substr(start_, position_ - start_);
    if (token.text == "geo" && peek() == '{') {
      while (position_ < text_.size() && peek() != '}' && peek() != '\n') ++position_;
      if (peek() != '}') fail_at(token, "geo{{ without its closing brace on the same line");
      ++position_;
      token.kind = Token::Kind::geometry;
      token.text = text_.substr(start_, position_ - start_);
    }
  }

  void number(Token& token) {
    while (is_digit(peek())) ++position_;
    bool integer = true;
    if (peek() == '.' && is_digit(peek(1))) {
      integer = false;
      ++position_;
      while (is_digit(peek())) ++position_;
    }
    const bool exponent = (peek() == 'e' || peek() == 'E') &&
                          (is_digit(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && is_digit(peek(2))));
    if (exponent) {
      integer = false;
      position_ += 2;
      while (is_digit(peek())) ++position_;
    }
    token.text = text_.substr(start_, position_ - start_);
    if (is_letter(peek())) fail_at(token, "'{}{}' is neither a number nor a name", token.text, peek());
    const char* first = token.text.data();
    const char* last = first + token.text.size();
    if (integer) {
      token.kind = Token::Kind::integer;
      if (std::from_chars(first, last, token.integer).ec != std::errc{}) fail_at(token, "{} is too large", token.text);
    } else {
      token.kind = Token::Kind::number;
      if (std::from_chars(first, last, token.number).ec != std::errc{})
        fail_at(token, "{} is out of range", token.text);
    }
  }

  void string(Token& token) {
    ++position_;
    while (position_ < text_.size() && peek() != '"' && peek() != '\n') position_ += peek() == '\\' ? 2 : 1;
    if (peek() != '"') fail_at(token, "string without its closing quote on the same line");
    token.kind = Token::Kind::string;
    token.text = text_.substr(start_ + 1, position_ - start_ - 1);
    ++position_;
  }

  void symbol(Token& token) {
    for (std::string_view s : symbols) {
      if (text_.substr(position_).starts_with(s)) {
        token.kind = Token::Kind::symbol;
        token.text = text_.substr(position_, s.size());
        position_ += s.size();
        return;
      }
    }
    const auto byte = static_cast<unsigned char>(text_[position_]);
    if (byte >= 0x20 && byte < 0x7f) fail_at(token, "unexpected character '{}'", text_[position_]);
    fail_at(token, "unexpected byte 0x{:02x}", byte);
  }

  std::string_view text_;
  size_t position_ = 0, start_ = 0;
  int line_ = 1, column_ = 1;
};

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::vector<Token> lex(std::string_view text) { return Lexer(text).run(); }

std::string unescape(const Token& token) {
  std::string out;
  const std::string_view t = token.text;
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i] != '\\') {
      out += t[i];
      continue;
    }
    const char c = ++i < t.size() ? t[i] : '\0';
    if (c == '"' || c == '\\') {
      out += c;
    } else if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == 'x' && i + 2 < t.size() && hex_digit(t[i + 1]) >= 0 && hex_digit(t[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(t[i + 1]) * 16 + hex_digit(t[i + 2]));
      i += 2;
    } else {
      fail_at(token, "unknown escape in a string: use \\\" \\\\ \\n \\t \\xNN (lower case)");
    }
  }
  return out;
}

std::string escape(std::string_view characters) {
  std::string out = "\"";
  for (char c : characters) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace spyre::program
