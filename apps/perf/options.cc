#include "perf/options.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace uroce::perf {
namespace {

constexpr std::array<std::pair<std::string_view, Test>, 12> kTests{{
    {"write_bw", {Verb::write, Kind::bw}},
    {"write_lat", {Verb::write, Kind::lat}},
    {"read_bw", {Verb::read, Kind::bw}},
    {"read_lat", {Verb::read, Kind::lat}},
    {"send_bw", {Verb::send, Kind::bw}},
    {"send_lat", {Verb::send, Kind::lat}},
    {"atomic_bw", {Verb::atomic, Kind::bw}},
    {"atomic_lat", {Verb::atomic, Kind::lat}},
    {"flush_bw", {Verb::flush, Kind::bw}},
    {"flush_lat", {Verb::flush, Kind::lat}},
    {"raw_bw", {Verb::raw, Kind::bw}},
    {"raw_lat", {Verb::raw, Kind::lat}},
}};

}  // namespace

std::optional<Test> test_by_name(std::string_view name) {
  name = name.substr(name.find_last_of('/') + 1);
  if (name.starts_with("uroce_")) name.remove_prefix(6);
  for (const auto& [known, test] : kTests) {
    if (name == known) return test;
  }
  return std::nullopt;
}

std::string test_name(Test test) {
  for (const auto& [name, known] : kTests) {
    if (known == test) return std::string(name);
  }
  return "unknown";
}

std::string test_names() {
  std::string out;
  for (const auto& [name, test] : kTests) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  return out;
}

std::string_view atomic_name(AtomicType type) {
  for (const auto& [name, known] : kAtomicNames) {
    if (known == type) return name;
  }
  return "unknown";
}

std::vector<uint64_t> Options::sizes() const {
  if (!all) return {size};
  std::vector<uint64_t> sizes;
  for (uint64_t s = 2; s <= kMaxAllSize; s *= 2) sizes.push_back(s);
  return sizes;
}

}  // namespace uroce::perf
