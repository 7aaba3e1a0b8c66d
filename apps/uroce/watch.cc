#include "uroce/watch.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "metrics/counter_table.h"
#include "metrics/page.h"
#include "uroce/rates.h"
#include "uroce/terminal.h"
#include "uroce/top.h"

namespace uroce::cli {

namespace {

using std::chrono::milliseconds;

milliseconds interval_of(const Options& options) {
  return milliseconds(static_cast<int64_t>(options.interval_s * 1000));
}

Result<Sample> take_sample(const Source& source) {
  Sample sample;
  auto counters = fetch_counters(source);
  if (!counters) return std::unexpected(counters.error());
  sample.at = std::chrono::steady_clock::now();
  sample.counters = std::move(*counters);
  return sample;
}

Result<Sample> take_sample_of_all(const Source& source) {
  auto sample = take_sample(source);
  if (!sample) return sample;
  auto engines = fetch_engines(source);
  if (!engines) return std::unexpected(engines.error());
  auto clients = fetch_clients(source);
  if (!clients) return std::unexpected(clients.error());
  uint64_t qps = 0;
  for (const ClientRow& row : *clients) qps += row.qps;
  if (qps <= kMostQpsOfTop) {
    auto rows = fetch_objects(source, message::Kind::qp);
    if (!rows) return std::unexpected(rows.error());
    sample->qps = std::move(*rows);
  }
  sample->engines = std::move(*engines);
  sample->clients = std::move(*clients);
  return sample;
}

Result<void> print_metrics(const Source& source) {
  const auto state = fetch_state(source);
  if (!state) return std::unexpected(state.error());
  fmt::print("{}", metrics::page(*state, metrics::Format::openmetrics));
  return {};
}

void print(const std::vector<DeviceRates>& rates, const Options& options) {
  const bool growth = !options.since.empty();
  fmt::print("{}", options.json ? rates_json(rates, std::chrono::system_clock::now()) + '\n'
                                : rates_table(rates, options.all, growth));
}

/// Prints what counters grew by since the sample in a file.
Result<void> print_growth(const Options& options) {
  std::ifstream file(options.since);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return fail(ENOENT, fmt::format("cannot read {}: {}", options.since, std::strerror(errno)));
  const auto before = sample_in(text, {std::chrono::steady_clock::now(), std::chrono::system_clock::now()});
  if (!before) return fail(before.error().code, fmt::format("cannot use {}: {}", options.since, before.error().text));
  const auto after = take_sample(options.source);
  if (!after) return std::unexpected(after.error());
  print(rates_between(*before, *after), options);
  return {};
}

}  // namespace

Result<void> run_stat(const Options& options) {
  if (options.describe) {
    fmt::print("{}\n{}", metrics::counters_as_markdown(), metrics::metrics_as_markdown());
    return {};
  }
  if (options.openmetrics) return print_metrics(options.source);
  if (!options.since.empty()) return print_growth(options);
  auto before = take_sample(options.source);
  if (!before) return std::unexpected(before.error());
  if (options.interval_s == 0) {
    print(rates_between({}, *before), options);
    return {};
  }
  Terminal terminal(Terminal::Use::lines);
  for (uint64_t n = 0; n < options.count || options.count == 0; ++n) {
    if (!terminal.wait(interval_of(options))) return {};
    auto after = take_sample(options.source);
    if (!after) return std::unexpected(after.error());
    const auto rates = rates_between(*before, *after);
    if (n > 0 && !options.json) fmt::print("\n");
    print(rates, options);
    std::fflush(stdout);
    before = std::move(after);
  }
  return {};
}

Result<void> run_top(const Options& options) {
  auto before = take_sample_of_all(options.source);
  if (!before) return std::unexpected(before.error());
  Terminal terminal(Terminal::Use::screen);
  for (uint64_t n = 0; n < options.count || options.count == 0; ++n) {
    // The first view comes at once, with the totals and without rates.
    if (n > 0 && !terminal.wait(interval_of(options))) return {};
    auto after = take_sample_of_all(options.source);
    if (!after) return std::unexpected(after.error());
    terminal.draw(top_view(n > 0 ? *before : Sample{}, *after, {terminal.lines(), terminal.columns()}));
    before = std::move(after);
  }
  return {};
}

}  // namespace uroce::cli
