// The small files of a model folder, read whole.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/checkpoint/Checkpoint.h"

namespace m3c::text {

/// The bytes of file `name`. Throws Error like ModelFolder::open.
inline std::string readFolderText(const ModelFolder &folder, std::string_view name) {
  MappedFile mapped = folder.open(name);
  std::string text(mapped.size(), '\0');
  mapped.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// The object that file `name` holds. Throws Error if it holds none.
inline nlohmann::json readFolderJson(const ModelFolder &folder, std::string_view name) {
  nlohmann::json value = parseJson(readFolderText(folder, name), folder.pathOf(name));
  if (!value.is_object())
    throw Error("cannot use a file of the checkpoint", folder.pathOf(name),
                fmt::format("found {}, expected an object", jsonKind(value)));
  return value;
}

} // namespace m3c::text
