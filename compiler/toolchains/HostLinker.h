// lld as a library: one object in, one shared object out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace m3c::toolchains {

/// Links one relocatable object into a shared object with soname `name`, without libraries, build
/// id or timestamps. Throws Error with lld's message. lld has global state, so calls wait for each
/// other.
std::vector<std::byte> linkShared(const std::string &name, std::span<const std::byte> object);

/// The same for an object of an AMD GPU: what its driver loads. Nothing may be left undefined.
std::vector<std::byte> linkCodeObject(const std::string &name, std::span<const std::byte> object);

std::string linkerVersion();

} // namespace m3c::toolchains
