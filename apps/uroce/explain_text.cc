#include "uroce/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "uroce/table.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

using Json = nlohmann::ordered_json;
using message::HistoryRow;
using Rows = std::vector<HistoryRow>;

/// The kernel cuts names longer than this (proc_pid_comm(5)).
constexpr std::size_t kNameOfProcess = 15;

/// The rows of each program, in the order of their first events.
std::vector<Rows> by_program(const Rows& rows) {
  std::vector<Rows> out;
  for (const HistoryRow& row : rows) {
    const auto same = std::ranges::find(out, row.client, [](const Rows& one) { return one.front().client; });
    (same != out.end() ? *same : out.emplace_back()).push_back(row);
  }
  return out;
}

/// The last thing that went wrong; nullptr for nothing.
const HistoryRow* cause(const Rows& rows) {
  const auto found = std::find_if(rows.rbegin(), rows.rend(), [](const HistoryRow& row) { return row.trouble; });
  return found != rows.rend() ? &*found : nullptr;
}

std::string explanation_of(const Rows& rows) {
  const HistoryRow& first = rows.front();
  std::string out = fmt::format("{}, process {}, user {}, client {}{}\n", printable(first.command), first.pid,
                                first.uid, first.client, first.gone ? ", has ended" : "");
  for (const HistoryRow& row : rows) {
    out += fmt::format("{:>12} {} {}{}\n", age_text(row.ago_ms), row.trouble ? '!' : ' ', printable(row.text),
                       row.times > 1 ? fmt::format(" ({} times)", row.times) : "");
  }
  const HistoryRow* const last = cause(rows);
  return out + (last != nullptr ? fmt::format("The last trouble: {}\n", printable(last->text))
                                : std::string("Nothing went wrong here.\n"));
}

}  // namespace

message::ListHistory history_of(std::string_view subject) {
  message::ListHistory request;
  const bool hex = subject.starts_with("0x") || subject.starts_with("0X");
  const auto number = hex ? whole_number<uint32_t>(subject.substr(2), 16) : whole_number<uint32_t>(subject);
  if (!number) {
    request.command = subject.substr(0, kNameOfProcess);
  } else if (hex) {
    request.qpn = *number;
  } else {
    request.pid = static_cast<int32_t>(*number);
  }
  return request;
}

std::string explanation(const Rows& rows) {
  std::string out;
  for (const Rows& program : by_program(rows)) out += (out.empty() ? "" : "\n") + explanation_of(program);
  return out;
}

std::string explanation_json(const Rows& rows) {
  Json all = Json::array();
  for (const Rows& program : by_program(rows)) {
    Json events = Json::array();
    for (const HistoryRow& row : program) {
      events.push_back({{"ago_ms", row.ago_ms},
                        {"device", row.device.empty() ? Json() : Json(row.device)},
                        {"qpn", row.qpn == 0 ? Json() : Json(row.qpn)},
                        {"trouble", row.trouble},
                        {"times", row.times},
                        {"text", row.text}});
    }
    const HistoryRow& first = program.front();
    const HistoryRow* const last = cause(program);
    all.push_back({{"client", first.client},
                   {"pid", first.pid},
                   {"uid", first.uid},
                   {"command", first.command},
                   {"gone", first.gone},
                   {"trouble", last != nullptr ? Json(last->text) : Json()},
                   {"events", std::move(events)}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::cli
