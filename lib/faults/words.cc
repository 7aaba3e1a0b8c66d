#include "faults/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/comma_list.h"
#include "faults/call_names.h"
#include "faults/opcode_names.h"
#include "faults/values.h"
#include "net/address.h"

namespace uroce::faults {

namespace {

constexpr uint32_t kMost24Bits = 0xffffff;
constexpr uint32_t kMostOvertakers = 1000;
constexpr uint32_t kMostTogether = 1000;
constexpr std::size_t kFirstCmAttribute = 0x10;  // of REQ

/// Puts a value that was read where it belongs.
template <class T, class Put>
Result<void> put(const Result<T>& value, Put where) {
  if (!value) return std::unexpected(value.error());
  where(*value);
  return {};
}

Span<uint32_t> narrow(const Span<uint64_t>& range) {
  return {static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last)};
}

Result<void> no_value(std::string_view /*value*/, Rule& /*rule*/) { return {}; }

Result<void> read_part(std::string_view value, Rule& rule) {
  constexpr std::pair<std::string_view, Part> kParts[] = {
      {"payload", Part::payload}, {"header", Part::header}, {"icrc", Part::icrc}};
  for (const auto& [name, part] : kParts) {
    if (value != name) continue;
    rule.part = part;
    return {};
  }
  return fail(EINVAL, "it must be payload, header or icrc");
}

Result<void> read_answer(std::string_view value, Rule& rule) {
  constexpr std::pair<std::string_view, Answer> kAnswers[] = {{"rnr", Answer::rnr},
                                                              {"psn", Answer::psn},
                                                              {"invalid", Answer::invalid},
                                                              {"access", Answer::access},
                                                              {"operational", Answer::operational},
                                                              {"reject", Answer::reject}};
  for (const auto& [name, answer] : kAnswers) {
    if (value != name) continue;
    rule.answer = answer;
    return {};
  }
  return fail(EINVAL, "it must be rnr, psn, invalid, access, operational or reject");
}

/// Messages of the connection manager (IBTA vol. 1, table 99).
Result<void> read_cm(std::string_view list, Rule& rule) {
  constexpr std::array<std::string_view, 9> kMessages{"req",  "mra",  "rej",      "rep",     "rtu",
                                                      "dreq", "drep", "sidr_req", "sidr_rep"};
  std::bitset<32> messages;
  for (const std::string_view one : split_at_commas(list)) {
    const auto found = std::ranges::find(kMessages, one);
    if (found == kMessages.end()) {
      return fail(EINVAL,
                  "it must be req, mra, rej, rep, rtu, dreq, drep, sidr_req or sidr_rep, several between commas");
    }
    messages.set(kFirstCmAttribute + static_cast<std::size_t>(found - kMessages.begin()));
  }
  rule.cm = messages;
  return {};
}

constexpr std::pair<std::string_view, std::optional<AsyncEventType>> kEvents[] = {
    {"completion", std::nullopt},
    {"cq_err", AsyncEventType::cq_error},
    {"qp_fatal", AsyncEventType::qp_fatal},
    {"qp_req_err", AsyncEventType::qp_request_error},
    {"qp_access_err", AsyncEventType::qp_access_error},
    {"comm_est", AsyncEventType::communication_established},
    {"sq_drained", AsyncEventType::sq_drained},
    {"qp_last_wqe_reached", AsyncEventType::last_wqe_reached},
    {"srq_err", AsyncEventType::srq_error},
    {"srq_limit_reached", AsyncEventType::srq_limit_reached},
    {"device_fatal", AsyncEventType::device_fatal},
    {"port_err", AsyncEventType::port_error},
    {"port_active", AsyncEventType::port_active},
    {"gid_change", AsyncEventType::gid_change},
};

Result<void> read_event(std::string_view value, Rule& rule) {
  std::string names;
  for (const auto& [name, event] : kEvents) {
    if (value == name) {
      rule.event = event;
      return {};
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return fail(EINVAL, "it must be " + names);
}

Result<void> read_delay(std::string_view value, Rule& rule) {
  return put(read_time(value), [&](Nanos time) { rule.delay = time; });
}

Result<void> read_length(std::string_view value, Rule& rule) {
  return put(read_time(value), [&](Nanos time) { rule.length = time; });
}

Result<void> read_together(std::string_view value, Rule& rule) {
  return put(read_number(value, 2, kMostTogether), [&](uint64_t n) { rule.together = static_cast<uint32_t>(n); });
}

constexpr ActionRow kActions[] = {
    {Action::drop, "drop", "", kOfFrames, "It is lost", no_value},
    {Action::delay, "delay", "TIME", kOfFramesAndCalls, "It goes on later: 10us, 5ms", read_delay},
    {Action::duplicate, "duplicate", "", kOfFrames, "A copy follows it", no_value},
    {Action::reorder, "reorder", "[N]", kOfFrames, "N frames (1) to its queue pair go first, or 10 ms pass",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 1, kMostOvertakers), [&](uint64_t n) { r.overtakers = static_cast<uint32_t>(n); });
     }},
    {Action::corrupt, "corrupt", "payload, header or icrc", kOfFrames,
     "One bit changes; `header` is BTH to the last extended header", read_part},
    {Action::mark, "mark", "ecn", kOfFrames, "Congestion experienced, as switches mark it",
     [](std::string_view v, Rule&) {
       return v == "ecn" ? Result<void>() : fail(EINVAL, "it must be ecn, the only mark that there is");
     }},
    {Action::throttle, "throttle", "RATE", kOfFrames, "The chosen frames share this rate: 100Mbit, 1Gbit a second",
     [](std::string_view v, Rule& r) { return put(read_rate(v), [&](uint64_t rate) { r.bits_per_s = rate; }); }},
    {Action::partition, "partition", "", kOfFrames, "No RoCE passes; needs `peer`, has no direction", no_value},
    {Action::answer, "answer", "rnr, psn, invalid, access, operational or reject", kOfFrames,
     "It is lost, and this NAK, or a REJ, comes back", read_answer},
    {Action::stall, "stall", "TIME", kOfFrames, "Its engine stands still", read_delay},
    {Action::end_qp, "break", "", kOfFrames, "It is lost, and its queue pair here ends: qp_fatal", no_value},
    {Action::fail, "fail", "[ERROR]", kOfCalls, "The call fails, with ENOMEM else",
     [](std::string_view v, Rule& r) { return put(read_error(v), [&](int error) { r.error = error; }); }},
    {Action::raise, "raise", "EVENT", kOfEvents, "As in libibverbs: qp_fatal, gid_change; or completion, without one",
     read_event},
    {Action::link_down, "link_down", "TIME", kOfEvents, "port_err, no frames, port_active", read_length},
    {Action::gid_gone, "gid_gone", "TIME", kOfEvents,
     "GIDs leave the table, but not connected queue pairs; gid_change twice", read_length},
    {Action::hold, "hold", "TIME", kOfCompletions, "Completions come later, in their order", read_delay},
    {Action::batch, "batch", "N", kOfCompletions, "N completions come at once, or all after 10 ms", read_together},
    {Action::shuffle, "shuffle", "N", kOfCompletions, "Likewise, but work queues change places", read_together},
    {Action::late_event, "late_event", "TIME", kOfCompletions, "Completions come, their event later", read_delay},
};

constexpr WordRow kWords[] = {
    {"device", "uroce0", kOfAll, "Only of this device",
     [](std::string_view v, Rule& r) {
       if (v.empty()) return Result<void>(fail(EINVAL, "it must be a device's name, like uroce0"));
       r.device = v;
       return Result<void>();
     }},
    {"qpn", "0x12", kOfFrames, "Destination queue pair; 1 is the connection manager's",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 0, kMost24Bits), [&](uint64_t n) { r.qpn = static_cast<uint32_t>(n); });
     }},
    {"peer", "10.0.0.2, 10.0.0.0/24, 2001:db8::1", kOfFrames, "The other side; takes a list",
     [](std::string_view v, Rule& r) {
       if (v.empty()) return Result<void>(fail(EINVAL, "it must be an address or a prefix, like 10.0.0.2"));
       return put(net::parse_prefixes(v), [&](const std::vector<Prefix>& peers) { r.peers = peers; });
     }},
    {"opcode", "send_only, uc_write_last, read*, nak, rnr", kOfFrames, "As in `uroce trace`; takes a list",
     read_opcodes},
    {"cm", "req, rep, rtu, rej, dreq", kOfFrames, "Connection manager's; takes a list", read_cm},
    {"psn", "5, 100-200", kOfFrames, "Packet sequence number; may wrap",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 0, kMost24Bits, true), [&](const Span<uint64_t>& range) { r.psn = narrow(range); });
     }},
    {"size", "0, 1-64", kOfFrames, "Bytes of payload",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 0, 65535), [&](const Span<uint64_t>& range) { r.size = narrow(range); });
     }},
    {"call", "create_qp, reg_mr, create*, rdma_connect", kOfCalls, "Else those that make objects", read_calls},
    {"program", "my_test, 4711", kOfCalls, "Name or process; takes a list",
     [](std::string_view v, Rule& r) {
       for (const std::string_view one : split_at_commas(v)) {
         if (one.empty()) return Result<void>(fail(EINVAL, "it must be a program's name, or a process's number"));
         r.programs.emplace_back(one);
       }
       return Result<void>();
     }},
    {"object", "0x12", kOfObjects, "As in `uroce show`; else all of its kind",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 1, kMost24Bits), [&](uint64_t n) { r.object = static_cast<uint32_t>(n); });
     }},
    {"gid", "10.117.0.1, fe80::/64", kOfEvents, "Of `gid_gone`: else all; takes a list",
     [](std::string_view v, Rule& r) {
       if (v.empty()) return Result<void>(fail(EINVAL, "it must be an address or a prefix, like 10.117.0.1"));
       return put(net::parse_prefixes(v), [&](const std::vector<Prefix>& gids) { r.gids = gids; });
     }},
    {"nth", "3, 3-5", kOfChosen, "Only these of the chosen ones",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 1, UINT64_MAX), [&](const Span<uint64_t>& range) { r.nth = range; });
     }},
    {"every", "10", kOfChosen, "Each tenth",
     [](std::string_view v, Rule& r) { return put(read_number(v, 1, UINT64_MAX), [&](uint64_t n) { r.every = n; }); }},
    {"probability", "0.01", kOfChosen, "Each with this chance",
     [](std::string_view v, Rule& r) {
       return put(read_probability(v), [&](double chance) { r.probability = chance; });
     }},
    {"count", "2", kOfAll, "At most so many",
     [](std::string_view v, Rule& r) { return put(read_number(v, 1, UINT64_MAX), [&](uint64_t n) { r.count = n; }); }},
    {"seed", "7", kOfChosen, "Of chances and bits; else drawn",
     [](std::string_view v, Rule& r) { return put(read_number(v, 0, UINT64_MAX), [&](uint64_t n) { r.seed = n; }); }},
    {"after", "2s", kOfAll, "Only from then on",
     [](std::string_view v, Rule& r) { return put(read_time(v), [&](Nanos time) { r.after = time; }); }},
    {"for", "500ms", kOfChosen, "Only so long", read_length},
    {"reason", "28", kOfFrames, "Of `answer reject`; else 28",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 1, 65535), [&](uint64_t n) { r.reason = static_cast<uint16_t>(n); });
     }},
    {"icrc", "right, wrong", kOfFrames, "Of `corrupt`: it is taken, or dropped (else)",
     [](std::string_view v, Rule& r) {
       if (v != "right" && v != "wrong") return Result<void>(fail(EINVAL, "it must be right or wrong"));
       r.icrc_is_right = v == "right";
       return Result<void>();
     }},
    {"at", "0", kOfFrames, "Of `corrupt`: the byte; else drawn",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 0, 65535), [&](uint64_t n) { r.at = static_cast<uint32_t>(n); });
     }},
};

}  // namespace

std::span<const ActionRow> action_rows() { return kActions; }

std::span<const WordRow> word_rows() { return kWords; }

std::string reference() {
  std::string out = "|action|effect|\n|---|---|\n";
  for (const ActionRow& row : kActions) {
    out += fmt::format("|`{}`{}{}|{}|\n", row.name, row.value.empty() ? "" : " ", row.value, row.text);
  }
  out += "\n|word|examples|meaning|\n|---|---|---|\n|`rx`, `tx`, `both`||Received, sent; else both|\n";
  for (const WordRow& row : kWords) out += fmt::format("|`{}=`|{}|{}|\n", row.name, row.value, row.text);
  return out;
}

}  // namespace uroce::faults
