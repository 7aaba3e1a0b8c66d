// The counters of a device and their meanings. The metrics, the documents and their tests are made from this table.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace uroce::metrics {

struct CounterMeaning {
  std::string_view counter;  ///< as `uroce stat` shows it: "rx_packets", "drop_icrc"
  std::string_view meaning;  ///< without a period, for people; may have `words` in backquotes
};

/// They have the order of `uroce stat`. A device has those of its kind of port.
std::span<const CounterMeaning> device_counters();

/// Where a counter stands on the page of metrics.
struct MetricName {
  std::string family;       ///< "uroce_rx_packets"; a counter's sample has "_total" behind it
  std::string reason{};     ///< the value of the label `reason`, where several counters are one family; else empty
  std::string_view help{};  ///< of such a family
};
MetricName metric_of(std::string_view counter);

/// The table as Markdown, with a newline at the end: counter, metric, meaning.
std::string counters_as_markdown();

}  // namespace uroce::metrics
