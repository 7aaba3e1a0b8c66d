// The metrics of a daemon as text for Prometheus and its like.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "message/operator_messages.h"

namespace uroce::metrics {

/// One device and its counters by name (counter_table.h).
struct DeviceState {
  std::string name{};
  bool link_up = false;
  uint32_t path_mtu_bytes = 0;
  std::vector<std::pair<std::string, uint64_t>> counters{};
};

/// The daemon's report, all at about one moment.
struct State {
  std::string version{};  ///< of the daemon
  std::vector<DeviceState> devices{};
  std::vector<message::EngineRow> engines{};
  std::vector<message::ClientRow> clients{};
  std::vector<message::UserRow> users{};
};

enum class Format {
  openmetrics,  ///< OpenMetrics 1.0
  prometheus,   ///< the older text format of Prometheus, 0.0.4
};

/// The HTTP content type of a page.
const char* content_type(Format format);

/// Connections on a page; those beyond are left out, and counted.
inline constexpr std::size_t kMostClients = 1000;

/// The whole page, with a newline at the end. Names that do not stand in the tables are left out.
std::string page(const State& state, Format format);

/// The metrics beside those of counter_table.h, as Markdown with a newline at the end: metric, labels, meaning.
std::string metrics_as_markdown();

}  // namespace uroce::metrics
