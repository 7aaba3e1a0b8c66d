#include "tests/support/recovery_fields.h"

#include <algorithm>

namespace uroce::test {

using namespace wire;

std::optional<std::string> RecoveryFields::set(std::string_view key, std::string_view value) {
  std::optional<std::string> complaint;
  if (opcode_ == Opcode::hello) complaint = set_hello(key, value);
  if (opcode_ == Opcode::sack) complaint = set_sack(key, value);
  any_ = any_ || complaint.has_value();
  return complaint;
}

std::optional<std::string> RecoveryFields::set_hello(std::string_view key, std::string_view value) {
  if (key == "epoch") return set_number(hello_.epoch, key, value, 32);
  if (key == "peer_epoch") return set_number(hello_.peer_epoch, key, value, 32);
  if (key == "parking") return set_number(hello_.parking, key, value, 16);
  if (key == "port") return set_number(hello_.port, key, value, 16);
  if (key == "wish") return set_number(hello_.wish, key, value, 16);
  if (key != "answer" || !value.empty()) return std::nullopt;
  hello_.answer = true;
  return std::string{};
}

std::optional<std::string> RecoveryFields::set_sack(std::string_view key, std::string_view value) {
  const auto set_psn = [&](Psn& psn) {
    uint32_t number = 0;
    std::string complaint = set_number(number, key, value, 24);
    psn = Psn(number);
    return complaint;
  };
  if (key == "epoch") return set_number(sack_.epoch, key, value, 32);
  if (key == "base") return set_psn(sack_.base);
  if (key == "echo") return set_psn(sack_.echo);
  if (key == "tag") return set_number(sack_.echo_tag, key, value, 7);
  if (key == "hold") return set_number(sack_.hold, key, value, 32);
  if (key == "words") {
    std::string complaint = set_number(sack_.words, key, value, 8);
    if (complaint.empty() && sack_.words > Sack::kMaxWords)
      complaint = fmt::format("words={} is more than the limit of {}", value, Sack::kMaxWords);
    return complaint;
  }
  if (key == "bits") bits_ = value;
  if (key == "dup" && value.empty()) sack_.duplicate = true;
  if (key != "bits" && (key != "dup" || !value.empty())) return std::nullopt;
  return std::string{};
}

std::string RecoveryFields::set_bits() {
  if (bits_ == "none") return {};
  for (std::string_view rest = bits_; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    uint32_t first = 0;
    uint32_t last = 0;
    if (std::string c = set_number(first, "bits", item.substr(0, dash), 24); !c.empty()) return c;
    if (std::string c = set_number(last, "bits", dash == item.npos ? item : item.substr(dash + 1), 24); !c.empty())
      return c;
    const int32_t from = distance(Psn(first), sack_.base + 1);
    const int32_t to = distance(Psn(last), sack_.base + 1);
    if (from < 0 || to < from || to >= static_cast<int32_t>(Sack::kMaxWords * 64)) {
      return fmt::format("bits={} is not within the {} PSNs after base={}", item, Sack::kMaxWords * 64,
                         sack_.base.value());
    }
    sack_.words = std::max(sack_.words, static_cast<uint32_t>(to) / 64 + 1);
    for (auto i = static_cast<uint32_t>(from); i <= static_cast<uint32_t>(to); ++i)
      sack_.bitmap[i / 64] |= uint64_t{1} << (i % 64);
  }
  return {};
}

std::string RecoveryFields::store(std::vector<std::byte>& payload) {
  if (!any_) return {};
  if (opcode_ == Opcode::hello) {
    payload.resize(Hello::kBytes);
    hello_.store(payload.data());
    return {};
  }
  std::string complaint = set_bits();
  payload.resize(sack_.bytes());
  sack_.store(payload.data());
  return complaint;
}

}  // namespace uroce::test
