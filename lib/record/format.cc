#include "record/format.h"

#include <array>

#include <fmt/format.h>

#include "record/structures.h"

namespace uroce::record {

std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(Kind::count)> kNames{
      "nothing",    "engine",     "queue state",  "QP state",      "end of state", "more state",
      "end",        "frames",     "local frames", "raw frames",    "poll",         "idle poll",
      "bad ICRC",   "doorbell",   "sends",        "recvs",         "SRQ recvs",    "SRQ limit",
      "room",       "region",     "check",        "key operation", "bytes",        "handle",
      "sent",       "completion", "event",        "attach",        "detach",       "modify",
      "adopt",      "unknown",    "ring",         "ring gone",     "shared queue", "shared queue gone",
      "attach SRQ", "detach SRQ", "GIDs",         "whole",         "route",        "groups",
      "rules"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

// FNV-1a over what the layout of the structures depends on.
uint64_t build_of() {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const char c : std::string_view(UROCE_VERSION)) mix(static_cast<unsigned char>(c));
  for (const std::size_t size : kSizes) mix(size);
  mix(static_cast<uint64_t>(Kind::count));
  return hash;
}

std::span<const std::byte> Parts::bytes(std::size_t n) {
  if (n > left_.size()) {
    throw Stop{Stop::Why::malformed, fmt::format("record {} ({}) of {} bytes is too short by {}", record_.number,
                                                 name_of(record_.kind), record_.bytes.size(), n - left_.size())};
  }
  const auto taken = left_.first(n);
  left_ = left_.subspan(n);
  return taken;
}

Record Reader::take() {
  const Record taken = next_;
  check_end();
  if (at_end()) throw Stop{Stop::Why::over, "the recording ends within a call"};
  read();
  return taken;
}

void Reader::check_end() const {
  if (broken_) throw Stop{Stop::Why::malformed, fmt::format("record {} makes no sense", next_.number)};
}

void Reader::read() {
  const uint64_t number = next_.number + 1;
  next_ = {.number = number};
  if (left_.empty()) return;
  Head head;
  if (left_.size() >= sizeof head) std::memcpy(&head, left_.data(), sizeof head);
  const bool known = head.kind != Kind::none && head.kind < Kind::count;
  if (left_.size() < sizeof head || !known || padded(head.bytes) > left_.size() - sizeof head) {
    broken_ = true;
    return;
  }
  next_ = {.kind = head.kind, .small = head.small, .bytes = left_.subspan(sizeof head, head.bytes), .number = number};
  left_ = left_.subspan(sizeof head + padded(head.bytes));
}

}  // namespace uroce::record
