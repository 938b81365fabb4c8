#include "runtime/base/Json.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

namespace m3c {
namespace {

using nlohmann::json;

/// Builds the value from the library's SAX events; the library's own builder lets the last of two
/// equal keys win.
class StrictBuilder {
public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  StrictBuilder(const std::string &file, const JsonLimits &limits, size_t base)
      : file(file), limits(limits), base(base) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t &) { return add(value); }
  bool string(string_t &value) { return add(std::move(value)); }
  bool binary(binary_t &) { return false; }

  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t &name) {
    frames.back().key = std::move(name);
    return true;
  }

  [[noreturn]] bool parse_error(size_t position, const std::string &,
                                const nlohmann::detail::exception &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: CAUSE"; the cause quotes
    // what was last read, which `printable` makes safe.
    std::string_view text = error.what();
    if (size_t colon = text.find(": "); colon != text.npos)
      text.remove_prefix(colon + 2);
    // The library counts the bytes that it has read, the offending one included.
    size_t offset = base + position - (position ? 1 : 0);
    fail(fmt::format("JSON parse error at byte {}: {}", offset, printable(text)));
  }

  json take() { return std::move(root); }

  [[noreturn]] void fail(std::string why) const {
    throw Error(fmt::format("{}: the {} is not acceptable JSON", file, limits.whatIsRead), file,
                std::move(why), "fetch the file again");
  }

private:
  struct Frame {
    json value;
    std::string key;
  };

  bool add(json value) {
    if (++count > limits.values)
      fail(fmt::format("more than {} values", limits.values));
    if (frames.empty()) {
      root = std::move(value);
      return true;
    }
    Frame &frame = frames.back();
    if (frame.value.is_array()) {
      frame.value.push_back(std::move(value));
      return true;
    }
    if (auto first = frame.value.find(frame.key); first != frame.value.end())
      fail(fmt::format("duplicate key: \"{}\" is given twice, as {} and as {}", path(),
                       jsonText(*first), jsonText(value)));
    frame.value.emplace(std::move(frame.key), std::move(value));
    return true;
  }

  bool open(json empty) {
    if (frames.size() >= limits.depth)
      fail(fmt::format("nested deeper than {} levels", limits.depth));
    frames.push_back({std::move(empty), {}});
    return true;
  }

  bool close() {
    json value = std::move(frames.back().value);
    frames.pop_back();
    return add(std::move(value));
  }

  std::string path() const {
    std::string text;
    for (const Frame &frame : frames)
      if (frame.value.is_object())
        text += (text.empty() ? "" : ".") + printable(frame.key);
    return text;
  }

  const std::string &file;
  const JsonLimits &limits;
  size_t base, count = 0;
  std::vector<Frame> frames;
  json root;
};

} // namespace

nlohmann::json parseJson(std::string_view text, const std::string &file, JsonLimits limits,
                         size_t base) {
  StrictBuilder builder(file, limits, base);
  if (text.size() > limits.bytes)
    builder.fail(fmt::format("it has {} bytes, at most {} are read", text.size(), limits.bytes));
  // The library takes a zero byte for the end of the text and would ignore what follows.
  if (size_t zero = text.find('\0'); zero != text.npos)
    builder.fail(fmt::format("JSON parse error at byte {}: a zero byte", base + zero));
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (unsigned char c : text) {
    if (out.size() >= limit)
      return out + "…";
    if (c >= 0x20 && c < 0x7f)
      out += char(c);
    else
      out += fmt::format("\\x{:02x}", c);
  }
  return out;
}

std::string jsonText(const nlohmann::json &value) {
  if (value.is_object() || value.is_array())
    if (value.size() > 16)
      return fmt::format("{} with {} entries", jsonKind(value), value.size());
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 80);
}

std::string_view jsonKind(const nlohmann::json &value) {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "a list";
  case json::value_t::string:
    return "a string";
  case json::value_t::boolean:
    return "a truth value";
  case json::value_t::number_float:
    return "a floating-point number";
  default:
    return "an integer";
  }
}

} // namespace m3c
