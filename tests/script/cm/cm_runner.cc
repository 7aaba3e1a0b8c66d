#include "tests/script/cm/cm_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "net/address.h"
#include "tests/script/cm/mad_line.h"
#include "tests/script/names.h"

namespace uroce::test {

namespace {

constexpr uint64_t kService = 0x1060001;

constexpr std::array kKindNames{
    Name<cm::CmEventKind>{"request", cm::CmEventKind::request},
    Name<cm::CmEventKind>{"reply", cm::CmEventKind::reply},
    Name<cm::CmEventKind>{"established", cm::CmEventKind::established},
    Name<cm::CmEventKind>{"rejected", cm::CmEventKind::rejected},
    Name<cm::CmEventKind>{"disconnected", cm::CmEventKind::disconnected},
    Name<cm::CmEventKind>{"unreachable", cm::CmEventKind::unreachable},
    Name<cm::CmEventKind>{"timewait_exit", cm::CmEventKind::timewait_exit},
    Name<cm::CmEventKind>{"withdrawn", cm::CmEventKind::withdrawn},
};

using CounterOf = Counter cm::IbCmCounters::*;
constexpr std::array kCounterNames{
    Name<CounterOf>{"resent", &cm::IbCmCounters::resent},
    Name<CounterOf>{"duplicates", &cm::IbCmCounters::duplicates},
    Name<CounterOf>{"malformed", &cm::IbCmCounters::malformed},
    Name<CounterOf>{"unknown_id", &cm::IbCmCounters::unknown_id},
    Name<CounterOf>{"out_of_state", &cm::IbCmCounters::out_of_state},
    Name<CounterOf>{"no_listener", &cm::IbCmCounters::no_listener},
    Name<CounterOf>{"backlog_full", &cm::IbCmCounters::backlog_full},
    Name<CounterOf>{"withdrawn", &cm::IbCmCounters::withdrawn},
    Name<CounterOf>{"stale", &cm::IbCmCounters::stale},
    Name<CounterOf>{"table_full", &cm::IbCmCounters::table_full},
    Name<CounterOf>{"req_received", &cm::IbCmCounters::req_received},
    Name<CounterOf>{"req_sent", &cm::IbCmCounters::req_sent},
    Name<CounterOf>{"rep_sent", &cm::IbCmCounters::rep_sent},
};

std::string describe(const cm::CmMessage& event) {
  return fmt::format("{} of {:#x} reason={} qpn={:#x} info='{}' data='{}'", name_of(kKindNames, event.kind), event.id,
                     event.reason, event.kind == cm::CmEventKind::request ? event.request.qpn : event.reply.qpn,
                     text_of(event.info), text_of(event.private_data));
}

std::vector<std::byte> data_from(Words& words, std::string_view key) {
  if (const auto bytes = words.number(fmt::format("{}_bytes", key))) return std::vector<std::byte>(*bytes);
  const auto text = words.text(key);
  return text ? bytes_of(*text) : std::vector<std::byte>();
}

}  // namespace

const std::map<std::string, CmRunner::Command>& CmRunner::commands() {
  static const std::map<std::string, Command> table{
      {"set", &CmRunner::do_set},         {"listen", &CmRunner::do_listen},   {"stop", &CmRunner::do_stop},
      {"connect", &CmRunner::do_connect}, {"accept", &CmRunner::do_call},     {"ready", &CmRunner::do_call},
      {"reject", &CmRunner::do_call},     {"delivered", &CmRunner::do_call},  {"disconnect", &CmRunner::do_call},
      {"notify", &CmRunner::do_call},     {"destroy", &CmRunner::do_call},    {"<", &CmRunner::do_receive},
      {">", &CmRunner::do_expect},        {"!", &CmRunner::do_event},         {"quiet", &CmRunner::do_quiet},
      {"size", &CmRunner::do_size},       {"counter", &CmRunner::do_counter}, {"known", &CmRunner::do_known},
  };
  return table;
}

void CmRunner::run() {
  for (const ScriptLine& line : script_.lines) {
    const auto command = commands().find(line.command);
    if (command == commands().end()) throw ScriptError{line.number, fmt::format("'{}' is no command", line.command)};
    if (line.command == "set" && host_) throw ScriptError{line.number, "set must stand before everything else"};
    if (line.command != "set") {
      open();
      advance(line);
    }
    (this->*command->second)(line);
    if (host_) collect();
  }
  open();
  const int last = script_.lines.empty() ? 0 : script_.lines.back().number;
  if (const std::string left = leftovers(); !left.empty())
    throw ScriptError{last, fmt::format("at the end, not expected: {}", left)};
}

void CmRunner::open() {
  if (host_) return;
  symbols_.set("service", kService);
  host_ =
      std::make_unique<CmHost>(Gid::from_ipv4(0x0a000001),
                               cm::IbCmConfig{.ca_guid = 0x1122334455667788,
                                              .max_connections = static_cast<uint32_t>(setting("max_connections", 64)),
                                              .seed = 1});
}

void CmRunner::do_set(const ScriptLine& line) {
  Words words(line, symbols_);
  for (const char* key : {"retries", "remote_timeout", "local_timeout", "ack_timeout", "max_connections"}) {
    if (const auto value = words.number(key)) settings_[key] = *value;
  }
  words.done();
}

uint64_t CmRunner::setting(const std::string& key, uint64_t fallback) const {
  const auto it = settings_.find(key);
  return it == settings_.end() ? fallback : it->second;
}

void CmRunner::note(const std::string& what) {
  trace_.push_back(fmt::format("{:>14} ns  {}", now_.count() - 1'000'000, what));
}

void CmRunner::collect() {
  for (; !host_->sent.empty(); host_->sent.pop_front()) {
    sent_.push_back(host_->sent.front());
    note(fmt::format("> {}", describe(sent_.back())));
  }
  for (; !host_->events.empty(); host_->events.pop_front()) {
    events_.push_back(host_->events.front());
    note(fmt::format("! {}", describe(events_.back())));
  }
}

/// Runs the deadlines on the way to `line.step` from now; with `~`, stops where the line has what it waits for.
void CmRunner::advance(const ScriptLine& line) {
  const auto arrived = [&] { return line.within && !(line.command == "!" ? events_.empty() : sent_.empty()); };
  const Nanos target = now_ + line.step;
  while (!arrived()) {
    const Nanos next = host_->cm.next_deadline();
    if (next > target) break;
    now_ = std::max(now_, next);
    host_->poll(now_);
    collect();
  }
  if (!arrived()) now_ = target;
}

std::string CmRunner::leftovers() const {
  if (!sent_.empty()) return fmt::format("{}", describe(sent_.front()));
  if (!events_.empty()) return fmt::format("event {}", describe(events_.front()));
  return {};
}

void CmRunner::do_listen(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto listening =
      host_->cm.listen(words.number_or("service", kService), static_cast<uint32_t>(words.number_or("backlog", 8)),
                       words.number_or("token", 1));
  words.done();
  if (!listening) words.error(listening.error().text);
}

void CmRunner::do_stop(const ScriptLine& line) {
  Words words(line, symbols_);
  host_->cm.stop_listening(words.number_or("service", kService));
  words.done();
}

cm::CmRequest CmRunner::request_from(Words& words) const {
  cm::CmRequest request;
  const auto small = [&](const char* key, uint8_t fallback) {
    return static_cast<uint8_t>(words.number_or(key, setting(key, fallback)));
  };
  request.service_id = words.number_or("service", kService);
  if (const auto type = words.text("type")) {
    const auto known = enum_of(kTypeNames, *type);
    if (!known) words.error(fmt::format("type={} is none: rc, uc or ud", *type));
    request.type = *known;
  }
  request.path.sgid = host_->gid;
  request.path.dgid = peer_gid();
  if (const auto to = words.text("to")) request.path.dgid = gid_from(words, *to);
  request.path.ack_timeout = small("ack_timeout", 8);
  request.path.mtu = static_cast<Mtu>(words.number_or("mtu", 3));
  request.path.flow_label = static_cast<uint32_t>(words.number_or("flow_label", 0));
  request.qpn = static_cast<uint32_t>(words.number_or("qpn", 0x11));
  request.psn = static_cast<uint32_t>(words.number_or("psn", 100));
  request.max_cm_retries = small("retries", 2);
  request.remote_cm_timeout = small("remote_timeout", 14);
  request.local_cm_timeout = small("local_timeout", 14);
  request.retry_count = static_cast<uint8_t>(words.number_or("retry_count", 7));
  request.ece_vendor = static_cast<uint32_t>(words.number_or("ece_vendor", 0));
  request.private_data = data_from(words, "data");
  return request;
}

void CmRunner::do_connect(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  const cm::CmRequest request = request_from(words);
  const auto expected = words.text("error");
  words.done();
  const auto id = host_->connect(request, now_);
  check_result(words, expected, id ? Result<void>() : std::unexpected(id.error()));
  if (id) symbols_.set(name, *id);
}

void CmRunner::do_call(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  const auto id = symbols_.value(name);
  if (!id) words.error(fmt::format("'{}' names no connection", name));
  const auto expected = words.text("error");
  const Result<void> result = call(line, words, static_cast<uint32_t>(*id));
  words.done();
  check_result(words, expected, result);
}

Result<void> CmRunner::call(const ScriptLine& line, Words& words, uint32_t id) {
  CmHost& host = *host_;
  if (line.command == "accept") {
    return host.accept(id,
                       {.qpn = static_cast<uint32_t>(words.number_or("qpn", 0x11)),
                        .psn = static_cast<uint32_t>(words.number_or("psn", 100)),
                        .qkey = static_cast<uint32_t>(words.number_or("qkey", 0)),
                        .ack_delay = static_cast<uint8_t>(words.number_or("ack_delay", 0)),
                        .sidr_status = static_cast<uint8_t>(words.number_or("status", 0)),
                        .private_data = data_from(words, "data")},
                       now_);
  }
  const auto data = data_from(words, "data");
  if (line.command == "ready") return host.ready(id, data, now_);
  if (line.command == "delivered") {
    host.cm.delivered(id);
    return {};
  }
  if (line.command == "disconnect") return host.disconnect(id, data, now_);
  if (line.command == "notify") return host.notify_established(id, now_);
  if (line.command == "reject") {
    const auto reason = static_cast<cm::RejReason>(words.number_or("reason", 28));
    return host.reject(id, reason, data_from(words, "info"), data, now_);
  }
  host.destroy(id, now_);
  return {};
}

void CmRunner::do_receive(const ScriptLine& line) {
  const ReceivedMad received = make_received(
      line, symbols_, host_->gid,
      {static_cast<uint8_t>(setting("retries", 2)), static_cast<uint8_t>(setting("ack_timeout", 8)), kService});
  note(fmt::format("< {}", line.text));
  host_->on_mad(received.source, received.destination, received.bytes, now_);
}

void CmRunner::do_expect(const ScriptLine& line) {
  if (sent_.empty()) throw ScriptError{line.number, "nothing was sent"};
  check_sent(line, symbols_, sent_.front(), host_->gid);
  sent_.pop_front();
}

/// `! KIND NAME ...`; of a request, NAME is new.
void CmRunner::do_event(const ScriptLine& line) {
  Words words(line, symbols_);
  if (events_.empty()) words.error("no event was told");
  const cm::CmMessage event = events_.front();
  events_.pop_front();
  const std::string kind = words.bare();
  const std::string name = words.bare();
  const auto expect = [&](bool holds) {
    if (!holds) words.error(fmt::format("told instead: {}", describe(event)));
  };
  expect(enum_of(kKindNames, kind) == event.kind);
  const bool request = event.kind == cm::CmEventKind::request;
  if (request) symbols_.set(name, event.id);
  expect(symbols_.value(name) == event.id);
  const std::span<const std::byte> data = request                                ? event.request.private_data
                                          : event.kind == cm::CmEventKind::reply ? event.reply.private_data
                                                                                 : event.private_data;
  if (const auto text = words.text("data")) expect(text_of(data) == *text);
  if (const auto text = words.text("info")) expect(text_of(event.info) == *text);
  if (const auto reason = words.number("reason")) expect(event.reason == *reason);
  if (const auto token = words.number("token")) expect(event.listener == *token);
  if (const auto qpn = words.number("qpn")) expect((request ? event.request.qpn : event.reply.qpn) == *qpn);
  if (const auto psn = words.number("psn")) expect((request ? event.request.psn : event.reply.psn) == *psn);
  if (const auto qkey = words.number("qkey")) expect(event.reply.qkey == *qkey);
  if (const auto vendor = words.number("ece_vendor")) {
    expect((request ? event.request.ece_vendor : event.reply.ece_vendor) == *vendor);
  }
  words.done();
}

void CmRunner::do_quiet(const ScriptLine& line) {
  if (const std::string left = leftovers(); !left.empty())
    throw ScriptError{line.number, fmt::format("not expected: {}", left)};
}

void CmRunner::do_size(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto expected = symbols_.value(words.bare());
  words.done();
  if (expected != host_->cm.size()) words.error(fmt::format("there are {} connections", host_->cm.size()));
}

/// Whether the application can ask for a connection: `known NAME`, `known NAME not`.
void CmRunner::do_known(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto id = symbols_.value(words.bare());
  const bool expected = words.bare() != "not";
  words.done();
  if (!id || (host_->cm.find(static_cast<uint32_t>(*id)) != nullptr) != expected) words.error("it is otherwise");
}

void CmRunner::do_counter(const ScriptLine& line) {
  Words words(line, symbols_);
  for (const auto& [name, counter] : kCounterNames) {
    const auto expected = words.number(name);
    const uint64_t actual = (host_->cm.counters().*counter).get();
    if (expected && *expected != actual) words.error(fmt::format("{} is {}", name, actual));
  }
  words.done();
}

}  // namespace uroce::test
