#include "perf/json_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace uroce::perf {

using Json = nlohmann::json;

uint64_t JsonReader::number(const char* name, uint64_t largest) {
  const Json* value = find(name);
  if (value == nullptr) return 0;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > largest) {
    bad(fmt::format("\"{}\" is not a whole number up to {}", name, largest));
    return 0;
  }
  return value->get<uint64_t>();
}

double JsonReader::real(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return 0;
  const double v = value->is_number() ? value->get<double>() : -1;
  if (std::isnan(v) || v < 0 || v >= 1e18) {
    bad(fmt::format("\"{}\" is not a number from 0 to 1e18", name));
    return 0;
  }
  return v;
}

bool JsonReader::flag(const char* name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_boolean()) bad(fmt::format("\"{}\" is neither true nor false", name));
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::string JsonReader::text(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_string() || value->get_ref<const std::string&>().size() > kMaxTextBytes) {
    bad(fmt::format("\"{}\" is not a text of at most {} bytes", name, kMaxTextBytes));
    return {};
  }
  std::string text = value->get<std::string>();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

Gid JsonReader::gid(const char* name) {
  const std::string digits = text(name);
  Gid gid;
  if (digits.size() != 32 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    bad(fmt::format("\"{}\" is not a GID of 32 hexadecimal digits", name));
    return gid;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    gid.bytes[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return gid;
}

const Json* JsonReader::find(const char* name) {
  const auto it = object_.is_object() ? object_.find(name) : object_.end();
  if (!object_.is_object() || it == object_.end()) {
    bad(fmt::format("\"{}\" is missing", name));
    return nullptr;
  }
  return &*it;
}

void JsonReader::bad(std::string text) {
  if (problem_.empty()) problem_ = std::move(text);
}

}  // namespace uroce::perf
