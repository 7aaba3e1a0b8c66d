#include "metrics/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>

#include "metrics/counter_table.h"

namespace uroce::metrics {

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

enum class Kind { counter, gauge };

struct Family {
  std::string_view name;
  Kind kind;
  std::string_view help;
};

// clang-format off
constexpr Family kBuild{"uroce_build_info", Kind::gauge, "always 1; the label has the daemon's version"};
constexpr Family kLink{"uroce_link_up", Kind::gauge, "1 while the port's link is up"};
constexpr Family kPathMtu{"uroce_path_mtu_bytes", Kind::gauge, "the largest path MTU of the device, payload bytes of a packet"};
constexpr Family kClientCount{"uroce_clients", Kind::gauge, "connections of programs with the daemon"};
constexpr Family kClientsLeftOut{"uroce_clients_left_out", Kind::gauge, "connections that are not on this page, because there are too many"};

/// A value of message::EngineRow.
struct EngineFamily {
  std::string_view value;
  Family family;
};
constexpr EngineFamily kEngines[] = {
    {"busy_ns", {"uroce_engine_busy_seconds", Kind::counter, "time in which the engine had work; its rate is the share of the core that the work needs"}},
    {"rounds", {"uroce_engine_rounds", Kind::counter, "rounds of the engine's loop; a sleeping engine makes two a second or more"}},
    {"port_frames", {"uroce_engine_port_frames", Kind::counter, "frames that the engine took from its ports' queues, also those for other engines"}},
    {"rx_packets", {"uroce_engine_rx_packets", Kind::counter, "RoCE packets that the engine received, over all devices"}},
    {"rx_bytes", {"uroce_engine_rx_bytes", Kind::counter, "bytes of the packets that the engine received"}},
    {"tx_packets", {"uroce_engine_tx_packets", Kind::counter, "RoCE packets that the engine sent, over all devices"}},
    {"tx_bytes", {"uroce_engine_tx_bytes", Kind::counter, "bytes of the packets that the engine sent"}},
    {"waiting_qps", {"uroce_engine_waiting_queue_pairs", Kind::gauge, "queue pairs that have something to send and wait for their turn"}},
    {"waiting_frames", {"uroce_engine_waiting_frames", Kind::gauge, "frames that other engines handed over and that wait"}},
    {"parked_frames", {"uroce_engine_parked_frames", Kind::gauge, "frames kept because they arrived out of order"}},
};

struct ClientFamily {
  Family family;
  uint64_t (*value)(const message::ClientRow&);
};
constexpr ClientFamily kClients[] = {
    {{"uroce_client_queue_pairs", Kind::gauge, "queue pairs of the connection"}, [](const message::ClientRow& r) -> uint64_t { return r.qps; }},
    {{"uroce_client_completion_queues", Kind::gauge, "completion queues of the connection"}, [](const message::ClientRow& r) -> uint64_t { return r.cqs; }},
    {{"uroce_client_shared_receive_queues", Kind::gauge, "shared receive queues of the connection"}, [](const message::ClientRow& r) -> uint64_t { return r.srqs; }},
    {{"uroce_client_memory_regions", Kind::gauge, "memory regions of the connection"}, [](const message::ClientRow& r) -> uint64_t { return r.mrs; }},
    {{"uroce_client_queue_bytes", Kind::gauge, "memory of the connection's queues"}, [](const message::ClientRow& r) { return r.queue_bytes; }},
    {{"uroce_client_registered_bytes", Kind::gauge, "registered memory of the connection"}, [](const message::ClientRow& r) { return r.registered_bytes; }},
    {{"uroce_client_calls", Kind::counter, "calls that the daemon served"}, [](const message::ClientRow& r) { return r.calls; }},
    {{"uroce_client_refused_calls", Kind::counter, "calls that the daemon refused"}, [](const message::ClientRow& r) { return r.errors; }},
    {{"uroce_client_rx_packets", Kind::counter, "RoCE packets to queue pairs of the connection, dropped ones included"}, [](const message::ClientRow& r) { return r.traffic.rx_packets; }},
    {{"uroce_client_rx_bytes", Kind::counter, "bytes of these packets, from Ethernet to ICRC"}, [](const message::ClientRow& r) { return r.traffic.rx_bytes; }},
    {{"uroce_client_tx_packets", Kind::counter, "packets that queue pairs of the connection sent, ACKs included"}, [](const message::ClientRow& r) { return r.traffic.tx_packets; }},
    {{"uroce_client_tx_bytes", Kind::counter, "bytes of these packets, from Ethernet to ICRC"}, [](const message::ClientRow& r) { return r.traffic.tx_bytes; }},
};

constexpr Family kBudgetUsed{"uroce_user_budget_used", Kind::gauge, "what the user has of a resource that is counted"};
constexpr Family kBudgetLimit{"uroce_user_budget_limit", Kind::gauge, "what the user may have of it"};
constexpr Family kBytesUsed{"uroce_user_budget_used_bytes", Kind::gauge, "what the user has of a resource that is measured in bytes"};
constexpr Family kBytesLimit{"uroce_user_budget_limit_bytes", Kind::gauge, "what the user may have of it"};
struct UserFamily {
  Family family;
  uint64_t message::Traffic::* value;
};
constexpr UserFamily kUserTraffic[] = {
    {{"uroce_user_rx_packets", Kind::counter, "RoCE packets to queue pairs of the user's connections, ended ones included"}, &message::Traffic::rx_packets},
    {{"uroce_user_rx_bytes", Kind::counter, "bytes of these packets, from Ethernet to ICRC"}, &message::Traffic::rx_bytes},
    {{"uroce_user_tx_packets", Kind::counter, "packets that queue pairs of the user's connections sent, ended ones included"}, &message::Traffic::tx_packets},
    {{"uroce_user_tx_bytes", Kind::counter, "bytes of these packets, from Ethernet to ICRC"}, &message::Traffic::tx_bytes},
};
constexpr Family kRefusals{"uroce_user_refused_calls", Kind::counter, "calls refused because of the user's budget"};
// clang-format on

constexpr std::string_view kClientLabels = "client, pid, uid, command, device";
constexpr std::string_view kBytesSuffix = "_bytes";

/// A label's value: quotes and backslashes escaped, bytes that are not printable ASCII replaced.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

class Writer {
 public:
  explicit Writer(Format format) : format_(format) {}

  /// The head of a family. Its samples follow, and then the next family.
  void begin(const Family& family) {
    const bool counter = family.kind == Kind::counter;
    sample_ = fmt::format("{}{}", family.name, counter ? "_total" : "");
    const std::string_view name = format_ == Format::openmetrics ? family.name : std::string_view(sample_);
    line("# HELP {} {}\n", name, escaped_help(family.help));
    line("# TYPE {} {}\n", name, counter ? "counter" : "gauge");
    if (format_ != Format::openmetrics) return;
    for (const std::string_view unit : {"bytes", "seconds"}) {
      if (name.ends_with(fmt::format("_{}", unit))) line("# UNIT {} {}\n", name, unit);
    }
  }
  void sample(const Labels& labels, uint64_t value) { sample(labels, fmt::to_string(value)); }
  void sample(const Labels& labels, const std::string& value) {
    out_ += sample_;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      line("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first, escaped(labels[i].second));
    }
    line("{} {}\n", labels.empty() ? "" : "}", value);
  }
  std::string end() {
    if (format_ == Format::openmetrics) out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  /// Backquotes are for Markdown.
  static std::string escaped_help(std::string_view text) {
    std::string out = escaped(text);
    std::erase(out, '`');
    return out;
  }

  const Format format_;
  std::string sample_;
  std::string out_;
};

const uint64_t* find(const std::vector<std::pair<std::string, uint64_t>>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, [](const auto& value) -> std::string_view { return value.first; });
  return found == values.end() ? nullptr : &found->second;
}

void write_devices(Writer& out, const std::vector<DeviceState>& devices) {
  out.begin(kLink);
  for (const DeviceState& device : devices) out.sample({{"device", device.name}}, device.link_up ? 1 : 0);
  out.begin(kPathMtu);
  for (const DeviceState& device : devices) out.sample({{"device", device.name}}, device.path_mtu_bytes);
  std::string begun;
  for (const auto& [counter, meaning] : device_counters()) {
    const bool somewhere = std::ranges::any_of(
        devices, [name = counter](const DeviceState& device) { return find(device.counters, name) != nullptr; });
    if (!somewhere) continue;
    const MetricName name = metric_of(counter);
    if (begun != name.family) {
      out.begin({name.family, Kind::counter, name.reason.empty() ? meaning : name.help});
      begun = name.family;
    }
    for (const DeviceState& device : devices) {
      const uint64_t* value = find(device.counters, counter);
      if (value == nullptr) continue;
      Labels labels{{"device", device.name}};
      if (!name.reason.empty()) labels.emplace_back("reason", name.reason);
      out.sample(labels, *value);
    }
  }
}

std::string seconds(uint64_t ns) { return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000); }

void write_engines(Writer& out, const std::vector<message::EngineRow>& engines) {
  for (const auto& [name, family] : kEngines) {
    out.begin(family);
    for (const message::EngineRow& engine : engines) {
      const uint64_t* value = find(engine.values, name);
      if (value == nullptr) continue;
      const Labels labels{{"engine", fmt::to_string(engine.engine)}};
      out.sample(labels, name.ends_with("_ns") ? seconds(*value) : fmt::to_string(*value));
    }
  }
}

void write_clients(Writer& out, const std::vector<message::ClientRow>& clients) {
  const std::span shown = std::span(clients).first(std::min(clients.size(), kMostClients));
  out.begin(kClientCount);
  out.sample({}, clients.size());
  out.begin(kClientsLeftOut);
  out.sample({}, clients.size() - shown.size());
  for (const auto& [family, value] : kClients) {
    out.begin(family);
    for (const message::ClientRow& row : shown) {
      out.sample({{"client", fmt::to_string(row.id)},
                  {"pid", fmt::to_string(row.pid)},
                  {"uid", fmt::to_string(row.uid)},
                  {"command", row.command},
                  {"device", row.device}},
                 value(row));
    }
  }
}

void write_budgets(Writer& out, const std::vector<message::UserRow>& users, const Family& family, bool in_bytes,
                   uint64_t message::Budget::* value) {
  out.begin(family);
  for (const message::UserRow& user : users) {
    for (const message::Budget& budget : user.budgets) {
      std::string_view resource = budget.resource;
      if (resource.ends_with(kBytesSuffix) != in_bytes) continue;
      if (in_bytes) resource.remove_suffix(kBytesSuffix.size());
      out.sample({{"uid", fmt::to_string(user.uid)},
                  {"privileged", user.privileged ? "yes" : "no"},
                  {"resource", std::string(resource)}},
                 budget.*value);
    }
  }
}

void write_users(Writer& out, const std::vector<message::UserRow>& users) {
  using message::Budget;
  write_budgets(out, users, kBudgetUsed, false, &Budget::used);
  write_budgets(out, users, kBudgetLimit, false, &Budget::limit);
  write_budgets(out, users, kBytesUsed, true, &Budget::used);
  write_budgets(out, users, kBytesLimit, true, &Budget::limit);
  const auto write_each = [&](const Family& family, const auto& value) {
    out.begin(family);
    for (const message::UserRow& user : users) {
      out.sample({{"uid", fmt::to_string(user.uid)}, {"privileged", user.privileged ? "yes" : "no"}}, value(user));
    }
  };
  write_each(kRefusals, [](const message::UserRow& user) { return user.refusals; });
  for (const auto& [family, value] : kUserTraffic) {
    write_each(family, [member = value](const message::UserRow& user) { return user.traffic.*member; });
  }
}

}  // namespace

const char* content_type(Format format) {
  return format == Format::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8";
}

std::string page(const State& state, Format format) {
  Writer out(format);
  out.begin(kBuild);
  out.sample({{"version", state.version}}, 1);
  write_devices(out, state.devices);
  write_engines(out, state.engines);
  write_clients(out, state.clients);
  write_users(out, state.users);
  return out.end();
}

std::string metrics_as_markdown() {
  std::string out = "| metric | labels | meaning |\n|---|---|---|\n";
  const auto row = [&out](const Family& family, std::string_view labels) {
    out += fmt::format("| `{}{}` | {} | {} |\n", family.name, family.kind == Kind::counter ? "_total" : "", labels,
                       family.help);
  };
  row(kBuild, "version");
  row(kLink, "device");
  row(kPathMtu, "device");
  for (const EngineFamily& one : kEngines) row(one.family, "engine");
  row(kClientCount, "");
  row(kClientsLeftOut, "");
  for (const ClientFamily& one : kClients) row(one.family, kClientLabels);
  for (const Family& family : {kBudgetUsed, kBudgetLimit, kBytesUsed, kBytesLimit})
    row(family, "uid, privileged, resource");
  row(kRefusals, "uid, privileged");
  for (const UserFamily& one : kUserTraffic) row(one.family, "uid, privileged");
  return out;
}

}  // namespace uroce::metrics
